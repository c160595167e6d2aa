"""With servers the flights are learnt as well as by one process, in each mode, though one dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from refluid.paddle.cached_files import package_data

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "delays_served.py"


def test_each_mode_learns_as_one_process(tmp_path: Path) -> None:
    if not (package_data() / "flights").is_dir():
        pytest.skip("needs `python scripts/fetch_data.py flights`")
    image = pytest.importorskip("PIL.Image")
    path = os.pathsep.join(one for one in sys.path if one)
    done = subprocess.run(
        [sys.executable, "-m", "refluid.cli.main", "run", str(SCRIPT), "--out", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "REFLUID_DATA": str(package_data())},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    reached = json.loads((tmp_path / "served.json").read_text())
    alone = reached.pop("one process")
    assert sorted(reached) == ["async", "geo", "half-async", "sync"] and alone > 0.77
    assert min(reached.values()) > alone - 0.005, reached
    assert done.stdout.count("killed the second server") == 4
    drawn = image.open(tmp_path / "served.png").convert("L")
    assert min(drawn.size) > 400 and drawn.histogram()[255] < 0.97 * drawn.size[0] * drawn.size[1]
