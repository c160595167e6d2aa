"""Policies about programs: what is said of them in one place is said nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "refluid"
# Text -> the one file that may spell it.
SPELLED_ONCE = {
    "@EMPTY@": "ir/names.py",
    "@GRAD": "ir/names.py",
    "@RENAME@": "ir/names.py",
    "op_role": "ir/attributes.py",
    "op_role_var": "ir/attributes.py",
}


def parsed_files() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("text", SPELLED_ONCE)
def test_names_are_spelled_once(text: str) -> None:
    found = {
        name
        for name, tree in parsed_files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value == text
    }
    assert found == {SPELLED_ONCE[text]}
