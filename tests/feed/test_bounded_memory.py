"""Two gigabytes of files pass through a small part of memory, however slow training is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_two_gigabytes_stay_within_300_megabytes() -> None:
    script = (
        "from benchmarks.feeding_memory import bounded\n"
        "found = bounded(2 * 2**30)\n"
        "print(found.text >> 20, found.above >> 20, found.produced / found.consumed)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=900
    )
    assert done.returncode == 0, done.stderr
    text, above, faster = map(float, done.stdout.split())
    assert text >= 2000
    assert above < 300
    assert faster > 5  # ten times, as measured before the pass on a machine that others use too
