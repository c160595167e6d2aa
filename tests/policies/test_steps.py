"""Policies about plans: they are steps, and their text is written in one place and read nowhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

RUNTIME = Path(__file__).resolve().parents[2] / "src" / "refluid" / "runtime"
PARSERS = {"ast", "re", "tokenize", "parser", "lib2to3"}
# Files that parse something else, and what.
PARSING = {"watched.py": "the lines of an operator's call stack"}
PRINTER = "printing.py"
# Who may look at the text of a plan: what makes it, compiles it, and shows it to users.
READERS = {"source.py", "code.py", "plan.py"}


def _files() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(RUNTIME.rglob("*.py")):
        yield path.relative_to(RUNTIME).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def _imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_nothing_parses() -> None:
    parsing = {name for name, tree in _files() if _imported(tree) & PARSERS}
    assert parsing == set(PARSING)


def test_nothing_is_replaced_in_text() -> None:
    """`str.replace` takes its arguments by position, other `replace` methods by name."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in _files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "replace"
        and node.args
    ]
    assert found == []


def test_the_text_of_plans_is_looked_at_where_it_is_made_and_run() -> None:
    found = {
        name
        for name, tree in _files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "text"
    }
    assert found <= READERS


def test_assignments_are_written_by_the_printer_alone() -> None:
    found = {
        name
        for name, tree in _files()
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        and any(isinstance(one, ast.Constant) and " = " in one.value for one in node.values)
    }
    assert found == {PRINTER}
