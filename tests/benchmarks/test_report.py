"""The arithmetic of the step benchmark and the page it records."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.report import OURS, PEER, Result, as_json, markdown, record
from benchmarks.timing import Times, alternate, ratio
from benchmarks.workloads import WORKLOADS, Feed

FAST = Times(((1.0, 1.0, 9.0), (2.0, 2.0, 2.0)))
SLOW = Times(((2.0, 2.0, 2.0), (6.0, 6.0, 1.0)))


def result(loss: float) -> Result:
    times = {OURS: FAST, PEER: SLOW, "other": Times(((8.0,), (8.0,)))}
    losses = {OURS: [2.0, loss], PEER: [2.0, 1.0], "other": [2.0, 1.5]}
    return Result(WORKLOADS["mlp"], times, losses)


def test_ratio_is_of_medians_and_its_range_is_over_blocks() -> None:
    found = ratio(FAST, SLOW)
    assert (found.value, found.low, found.high) == (1.0, 2.0, 3.0)


def test_compares_with_the_fastest_peer_and_checks_against_the_plain_one() -> None:
    good, bad = result(1.00005), result(1.1)
    assert good.fastest_peer == PEER
    assert good.agrees and not bad.agrees
    assert good.peer_spread == pytest.approx(0.5)
    assert "OVER" in bad.cells()[-1]
    assert as_json([good], {})["results"]["mlp"]["ratio"]["value"] == 1.0


def test_alternates_and_turns_the_order() -> None:
    calls: list[str] = []

    def step(name: str) -> float:
        calls.append(name)
        return 0.0

    rivals = {name: lambda _, name=name: step(name) for name in ("a", "b")}
    feeds: list[Feed] = [{}]
    times = alternate(rivals, feeds, blocks=2, steps=1, warmup=0)
    assert "".join(calls) == "aabb" + "bbaa"
    assert [len(block) for block in times["a"].blocks] == [1, 1]


def test_record_replaces_its_section_only(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("# Benchmarks\n\nBy hand.\n")
    record(page, "steps on cpu", markdown([result(1.0)], {"torch": "1"}))
    record(page, "steps on cuda", "on a GPU")
    record(page, "steps on cpu", "anew")
    text = page.read_text()
    assert "By hand." in text and "on a GPU" in text and "anew" in text
    assert "MLP" not in text
    assert text.count("begin -->") == text.count("end -->") == 2
