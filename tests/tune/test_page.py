"""The page that explains tuning: what was found is on it, and a browser shows it as it should."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refluid.cli.page import two_curves
from refluid.cli.tune_page import report_page
from refluid.engine.choices import NONE
from refluid.engine.knobs import KnobScope
from refluid.tune.diagnosis import diagnose
from refluid.tune.evidence import Cause, Evidence
from refluid.tune.profile import OperatorCost
from refluid.tune.ratios import Compared, TimedBlock
from refluid.tune.report import report_text
from refluid.tune.search import Tried
from refluid.tune.session import Script
from refluid.tune.space import SPACE, Proposal
from refluid.tune.tuner import TuningOutcome
from scripts.site.check import BROWSERS, browser_lacks
from tests.cli.test_profile import Checker
from tests.tune.test_diagnosis import PROFILE, seen

ODD = "x <script>alert(1)</script> & y"
TIER = Proposal(next(one for one in SPACE if one.name == "FLAGS_refluid_tier"), "auto")
HALF = Proposal(next(one for one in SPACE if one.name == "decorate"), True)
BEFORE = TimedBlock(0.1, [2.3, 2.2], 10**7)
FASTER = Compared(0.6, 0.55, 0.66, 1e-7, 9 * 10**6, [2.3, 2.2], BEFORE)
SLOWER = replace(FASTER, ratio=1.2, low=1.1, high=1.3)


def found() -> TuningOutcome:
    evidence: Evidence = seen(waited=0.02, outside=0.021, reader=f"DataLoader({ODD}): reader-bound")
    profile = replace(PROFILE, slowest=[OperatorCost("mul", "y", ODD, 3.0, 10**7, 10**6)] * 3)
    evidence = replace(evidence, profile=profile)
    diagnosis = diagnose(evidence)
    cause = Cause("copy each step", "5 ms", "copy less", (f"train.py:7  {ODD}",))
    best = NONE.put(KnobScope.FLAG, "FLAGS_refluid_tier", "auto")
    return TuningOutcome(
        Script(["train.py", "--lr", "0.1"]),
        evidence,
        replace(diagnosis, causes=(*diagnosis.causes, cause)),
        [
            Tried(HALF, SLOWER, False, "slower", NONE),
            Tried(TIER, FASTER, True, "faster", NONE),
            Tried(HALF, None, False, "can't be run: it ended", NONE),
        ],
        best,
        FASTER,
        3,
        61.0,
    )


def test_the_text_says_everything() -> None:
    text = report_text(found(), "strategy.toml")
    for part in (
        "1.67 times as fast (1.52 to 1.82), by 1 choice",
        "waiting for data",
        "slow reader",
        "copy each step: 5 ms",
        "train.py:7",
        "FLAGS_refluid_tier = auto",
        "can't be run: it ended",
        "3 more were not tried: the time was up",
        "refluid run --strategy strategy.toml train.py --lr 0.1",
        'FLAGS_refluid_tier = "auto"',
    ):
        assert part in text
    nothing = replace(found(), best=NONE, proof=None, tried=[], interrupted=True)
    text = report_text(nothing, "")
    assert "as fast as any" in text and "nothing to apply" in text


def test_the_page_says_everything() -> None:
    page = Checker()
    page.feed(report_page(found(), "strategy.toml"))
    assert not page.open
    for part in ("What bound the run", "Gains", "Losses before and after", "Memory", "copy less",
                 "What was tried", "The slowest operators", "How to apply it", ODD):  # fmt: skip
        assert part in page.text, part
    nothing = Checker()
    nothing.feed(report_page(replace(found(), best=NONE, proof=None, tried=[]), ""))
    assert "Gains" not in nothing.text and "nothing to apply" in nothing.text


def test_a_step_stands_at_one_place_in_both_curves() -> None:
    drawn = two_curves([3.0, 2.0, 1.0], [3.0, float("nan")])
    before, after = (part.split('"')[0] for part in drawn.split('points="')[1:])
    assert before == "0.0,5.00 500.0,50.00 1000.0,95.00" and after == "0.0,5.00"
    assert "step 3" in drawn


@pytest.mark.skipif(bool(browser_lacks()), reason=browser_lacks())
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_it(width: int, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    file = tmp_path / "report.html"
    file.write_text(report_page(found(), "strategy.toml"))
    wrong: list[str] = []
    asked: list[Any] = []
    with sync_playwright() as play:
        path = next(one for one in map(shutil.which, BROWSERS) if one)
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": width, "height": 900})
        tab.on("console", lambda one: wrong.append(one.text) if one.type == "error" else None)
        tab.on("pageerror", lambda one: wrong.append(str(one)))
        tab.on("request", lambda one: asked.append(one.url))
        tab.goto(file.as_uri())
        wide = tab.evaluate("document.documentElement.scrollWidth")
        small = tab.evaluate(_SMALLEST)
        tall = tab.evaluate(_TALLEST)
        shown = tab.evaluate("document.body.innerText")
        browser.close()
    assert wrong == [] and asked == [file.as_uri()]
    assert wide <= width, "the page is wider than the window"
    assert small >= 11 and tall < 400, "a cell is squeezed"
    assert "1.67 times as fast" in shown and ODD in shown


_TALLEST = """() => Math.max(...[...document.querySelectorAll("td")]
  .map(one => one.getBoundingClientRect().height))"""
_SMALLEST = """() => Math.min(...[...document.querySelectorAll("h1, h2, p, td, th, span, b, pre")]
  .filter(one => one.innerText.trim())
  .map(one => parseFloat(getComputedStyle(one).fontSize)))"""
