"""Two processes learn the digits as one does, and the picture of their last steps is drawn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from refluid.paddle.cached_files import package_data

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "digits_together.py"


def ran(folder: Path, *command: str) -> str:
    path = os.pathsep.join(one for one in sys.path if one)
    said = [*command, str(SCRIPT), "--steps", "100", "--out", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "refluid.cli.main", *said],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "REFLUID_DATA": str(package_data())},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_are_as_one(tmp_path: Path) -> None:
    if not any((package_data() / one).is_dir() for one in ("mnist", "digits5k")):
        pytest.skip("needs `python scripts/fetch_data.py`")
    pytest.importorskip("matplotlib")
    ran(tmp_path, "run")
    said = ran(tmp_path, "launch", "-n", "2")
    reached = [
        float(line.split()[-1].rstrip("%"))
        for line in said.splitlines()
        if line.startswith(("test accuracy", "by one process"))
    ]
    assert len(reached) == 2 and abs(reached[0] - reached[1]) < 1 and reached[0] > 80, said
    assert (tmp_path / "together.png").stat().st_size > 5000
