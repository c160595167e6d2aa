"""Fluid's answers in the corners: the recordings of `faults`, and what layers build there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from refluid.verify.recordings import load_recording
from refluid.verify.replay import replay
from tests.golden import GOLDEN, needs_golden

FAULTS = GOLDEN / "faults"
FOLLOWED = sorted((FAULTS / "follow").glob("*/*.npz"))


@needs_golden
@pytest.mark.parametrize("path", FOLLOWED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_quirks_that_are_followed(path: Path) -> None:
    outcome = replay(load_recording(path), path.parent.name)
    assert outcome.passed, outcome.reason


@needs_golden
def test_what_layers_build() -> None:
    folder = FAULTS / "layer_level"
    command = [sys.executable, "-m", "refluid.cli.main", "run", str(folder / "case.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = (folder / "expected.txt").read_text().splitlines()
    assert done.stdout.splitlines() == expected
