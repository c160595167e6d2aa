"""`refluid run --watch`: what steps take, in lines and in the end."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.test_scalars import SCRIPT, scalars
from tests.started import refluid
from tests.tune.scripts import DYGRAPH


def test_the_end_tells_what_steps_took_and_fetched(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    options = ["--watch", "--log-dir", "logs"]
    ran = refluid("run", *options, "train.py", folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "as ever\n"), ran.stderr
    assert re.search(
        r"refluid: program 1: 30 steps, \S+ ms each, \S+ ms in runs and \S+ ms between; \S+ -?\d",
        ran.stderr,
    )
    assert "MB resident in the end" in ran.stderr
    assert scalars(tmp_path / "logs")[-1][0] == 30  # both hear of each step


def test_steps_of_dygraph_are_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DYGRAPH.replace("STEPS", "40"))
    ran = refluid("run", "--watch", "train.py", folder=tmp_path, check=True)
    assert re.search(r"refluid: dygraph: 40 steps, \S+ ms each", ran.stderr)
