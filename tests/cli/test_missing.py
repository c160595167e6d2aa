"""A script's error names the extra where a package is missing that Fluid brought along."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from refluid.cli.missing import APART, COMPAT, advise
from tests.started import refluid

ROOT = Path(__file__).parents[2]


def test_the_table_is_the_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = extras["optional-dependencies"]["compat"]
    own = {"fissix"}  # reads scripts of Python 2, and Fluid didn't bring it along
    assert {*COMPAT.values()} | own == {re.split("[<>=]", one)[0] for one in wanted}
    assert wanted == sorted(wanted)
    listed = (ROOT / "docs" / "dependencies.md").read_text()
    assert all(one in listed for one in [*COMPAT.values(), *APART.values()])


@pytest.mark.parametrize(
    "name, said",
    [
        ("six", 'pip install "refluid[compat]"'),
        ("yaml.loader", 'pip install "refluid[compat]"'),
        ("cv2", "pip install opencv-python-headless"),
        ("own", ""),
        (None, ""),
    ],
)
def test_advice(name: str | None, said: str) -> None:
    error = ModuleNotFoundError(f"No module named {name!r}", name=name)
    advise(error)
    assert "\n".join(getattr(error, "__notes__", [])).endswith(said)
    assert bool(said) == hasattr(error, "__notes__")


def test_a_script_without_them(tmp_path: Path) -> None:
    """Python's way of saying that a module is not there: None in its place."""
    script = tmp_path / "train.py"
    script.write_text("import sys\nsys.modules['six'] = None\nimport six.moves\n")
    ran = refluid("run", str(script))
    assert ran.returncode == 1
    assert ran.stderr.endswith(
        'Fluid brought six along; here it comes by: pip install "refluid[compat]"\n'
    )
