"""`refluid tune` from a script to a file, a report and a page; and what interrupting it leaves."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refluid.cli.main import app
from refluid.engine.strategy_file import read_strategy
from tests.cli.test_profile import Checker
from tests.started import refluid
from tests.tune import scripts
from tests.tune.test_window import needs_cover

SAVING = "open('saved.txt', 'w').write('x')\n" + scripts.PLAIN


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "refluid.cli.main", "tune", *arguments]


@pytest.mark.slow
def test_a_setting_that_is_in_the_way_is_found(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(scripts.PLAIN)
    options = ["--budget", "100s", "--out", "found.toml", "--report", "page.html"]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("FLAGS_")},
        "FLAGS_refluid_tier": "interpreted",
        "OMP_NUM_THREADS": "1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    ran = subprocess.run(
        command(*options, "train.py"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment,
    )
    assert ran.returncode == 0, ran.stderr
    assert "What was tried" in ran.stdout and "A step takes" in ran.stdout
    assert "FLAGS_refluid_tier = auto" in ran.stdout
    if (tmp_path / "found.toml").exists():  # not where the machine is too noisy for a proof
        assert read_strategy(tmp_path / "found.toml")
        assert "times as fast" in ran.stdout
    page = Checker()
    page.feed((tmp_path / "page.html").read_text())
    assert "What bound the run" in page.text and not page.open
    assert list((tmp_path / "cache").rglob("*.json"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.py"], "no such script: none.py"),
        (["--budget", "soon", "train.py"], "--budget is like 90s"),
        (["--ips", "10.0.0.1,10.0.0.2", "train.py"], "trainers are tuned on one host"),
    ],
)
def test_what_is_no_script_or_budget_is_refused(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, ["tune", *arguments])
    assert ran.exit_code == 2 and said in ran.stderr


def test_a_script_without_a_loop_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    ran = refluid("tune", "train.py", folder=tmp_path)
    assert ran.returncode == 2 and "nothing to tune: the script ended before" in ran.stderr


@pytest.mark.slow
@needs_cover
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_interrupting_leaves_everything_as_it_was(
    by: signal.Signals, seed: int, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SAVING)
    process = subprocess.Popen(
        command("--budget", "60s", "train.py"),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path.parent / "cache")},
    )
    time.sleep(random.Random(seed).uniform(0.2, 8))
    came_to_its_end = process.poll() is not None
    process.send_signal(by)
    process.wait(timeout=60)
    there = {one.name for one in tmp_path.iterdir()}
    assert there == {"train.py"} or (came_to_its_end and there == {"train.py", "strategy.toml"})
    assert (tmp_path / "train.py").read_text() == SAVING
    deadline = time.monotonic() + 20
    while left(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left(tmp_path)


def left(folder: Path) -> list[str]:
    """Processes that still are in the folder."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(one / "cwd") == str(folder):
                found.append(one.name)
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_a_tuning_that_was_killed_goes_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(scripts.PLAIN)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    begun = subprocess.Popen(
        command("--budget", "200s", "train.py"), cwd=tmp_path, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not list(tmp_path.rglob("begun-*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    begun.send_signal(signal.SIGKILL)
    begun.wait(timeout=60)
    (journal,) = tmp_path.rglob("begun-*.json")
    again = subprocess.run(
        command("--budget", "60s", "train.py"), cwd=tmp_path, env=environment,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert "trials of a tuning that was ended are known; it goes on" in again.stderr
    assert not journal.exists()
