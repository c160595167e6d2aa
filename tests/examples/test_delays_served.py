"""With servers the flights are learnt as well as by one process, in each mode, though one dies."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import refluid.paddle
from refluid.paddle.cached_files import package_data
from refluid.pserver.figures import TrainerFigures

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODES = ("sync", "half-async", "async", "geo")


@pytest.fixture(scope="module")
def served() -> Iterator[Any]:
    """The example, and an environment in which what it starts finds the data."""
    if not (package_data() / "flights").is_dir():
        pytest.skip("needs `python scripts/fetch_data.py flights`")
    pytest.importorskip("matplotlib")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        patch.setenv("PYTHONPATH", os.pathsep.join(one for one in sys.path if one))
        patch.setenv("REFLUID_DATA", str(package_data()))
        patch.setenv("OMP_NUM_THREADS", "1")  # a busy machine
        refluid.paddle.install()
        try:
            yield importlib.import_module("delays_served")
        finally:
            refluid.paddle.uninstall()


@pytest.fixture(scope="module")
def task(served: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return served.written(tmp_path_factory.mktemp("flights"), 1_000_000, 3)


@pytest.fixture(scope="module")
def one(served: Any, task: Any) -> float:
    """The area under the curve that one process reaches."""
    found = served.alone(task)
    assert found > 0.77
    return float(found)


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_learns_as_one_process(mode: str, served: Any, task: Any, one: float) -> None:
    """Two servers, of which one is killed on the way, and two trainers."""
    found = served.watched(mode, task, print)
    print(f"{mode}: area {found.reached:.4f}, of one process {one:.4f}")
    assert found.reached > one - 0.005
    assert 0 < found.killed < found.back < found.seconds


def test_the_example_prints_and_draws(served: Any, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    script, less = str(EXAMPLES / "delays_served.py"), ["--flights=40000", "--epochs=1"]
    done = subprocess.run(
        [sys.executable, "-m", "refluid.cli.main", "run", script, "--out", str(tmp_path), *less],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    reached = json.loads((tmp_path / "served.json").read_text())
    assert set(reached) == {"one process", *MODES}
    for name, area in reached.items():
        assert area > 0.6 and f"{name:12}{area:7.4f}" in done.stdout
    drawn = image.open(tmp_path / "served.png").convert("L")
    assert min(drawn.size) > 400 and drawn.histogram()[255] < 0.97 * drawn.size[0] * drawn.size[1]


def test_speeds_are_of_the_time_since_a_trainer_told_last(served: Any) -> None:
    watched = served.Watched()
    for moment, told in [(1, {}), (2, {0: 100}), (3, {0: 100, 1: 50}), (9, {0: 400, 1: 50})]:
        seconds = {one: 2.0 if rows < 200 else 8.0 for one, rows in told.items()}
        figures = {one: TrainerFigures(1, rows, seconds[one]) for one, rows in told.items()}
        watched.figures.append((moment, figures))
    assert watched.speeds() == [(1, 0), (2, 50), (3, 75), (9, 75)]
