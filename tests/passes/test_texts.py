"""Each pass on a few operators, before -> after: the files in `cases`.

More patterns of fusions, and their numbers, are in `test_fusions`, more loops in `test_time_steps`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from refluid.core import names
from refluid.engine.pipeline import PASSES, PLACING
from refluid.engine.setting import Setting
from tests.passes.texts import after

CASES = {path.stem: path for path in sorted((Path(__file__).parent / "cases").glob("*.txt"))}
WATCHFUL = [one.name for one in PASSES if one.starts()] + [
    one.name for one in PLACING if one.name not in ("data_parallel", "sharding")
]


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    text, expected = CASES[name].read_text(encoding="utf-8").split("\n->\n")
    with names.guard():
        found, done = after(text, name, setting=Setting(replicas=2, loss="loss"))
    assert found == expected.splitlines()
    assert done.reports[name]


@pytest.mark.parametrize("name", WATCHFUL)
def test_where_there_is_nothing_to_do_no_copy_is_made(name: str) -> None:
    found, done = after("tanh_shrink(X=x) -> Out=y", name)
    assert found == ["tanh_shrink(X=x) -> Out=y"]
    assert not done.reports


def test_every_pass_is_shown() -> None:
    assert {one.name for one in PASSES} == set(CASES)
