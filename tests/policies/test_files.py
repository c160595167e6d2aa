"""Policies about files: how long they may be, what they may be called, what they may name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = [ROOT / name for name in ("src", "tests", "examples", "benchmarks", "scripts")]
MAX_FILE_LINES = 300
# Copied to another machine alone, so it is one file.
COPIED_ALONE = ROOT / "src" / "refluid" / "record" / "fluid_recorder.py"
MAX_FUNCTION_LINES = 50
# Names that are given: Fluid's modules.
GIVEN_NAMES = {
    "src/refluid/fluid/layers/utils.py",
    "src/refluid/fluid/incubate/fleet/utils/utils.py",
    "src/refluid/paddle/dataset/common.py",
}
BANNED_NAMES = {"utils.py", "util.py", "helpers.py", "misc.py", "common.py"}
# Folders of one machine say nothing to anyone else.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(work|root|home)/\w")

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def python_files() -> list[Path]:
    found = (path for folder in CODE for path in sorted(folder.rglob("*.py")))
    return [path for path in found if not path.name.endswith("_pb2.py")]


def written_files() -> list[Path]:
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    settings = [ROOT / name for name in ("pyproject.toml", "Makefile", ".ci/run")]
    return [*python_files(), *pages, *settings]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those that are defined in it, at any depth; much quicker than `ast.walk`."""
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for inner in getattr(node, part, ()):
            if isinstance(inner, FUNCTIONS):
                yield inner
            yield from functions(inner)


def too_much(path: Path, source: str) -> Iterator[str]:
    """What is longer in a file than it may be."""
    lines, most = len(source.splitlines()), 450 if path == COPIED_ALONE else MAX_FILE_LINES
    if lines > most:
        yield f"{name_of(path)} has {lines} lines: split it, one idea per file"
    if lines <= MAX_FUNCTION_LINES:
        return
    for node in functions(ast.parse(source)):
        if length(node) > MAX_FUNCTION_LINES:
            yield f"{name_of(path)}: {node.name} has {length(node)} lines"


def test_python_files_stay_small() -> None:
    found = [
        one for path in python_files() for one in too_much(path, path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "around",
    [
        "if a:\n{}",
        "class A:\n{}",
        "if a:\n  b\nelse:\n{}",
        "with a:\n{}",
        "try:\n  a\nexcept B:\n{}",
        "try:\n  a\nfinally:\n{}",
        "match a:\n case 1:\n{}",
        "async def a():\n{}",
    ],
)
def test_long_functions_are_found_wherever_they_are(around: str) -> None:
    body = "".join(f"    a = {n}\n" for n in range(MAX_FUNCTION_LINES))
    found = [*too_much(ROOT / "a.py", around.format(f"  def long():\n{body}"))]
    assert f"a.py: long has {MAX_FUNCTION_LINES + 1} lines" in found


def test_file_names_say_what_is_inside() -> None:
    vague = {name_of(path) for path in python_files() if path.name in BANNED_NAMES}
    assert not vague - GIVEN_NAMES


def test_no_machines_own_paths() -> None:
    found = [
        f"{name_of(path)} names a folder of one machine: {match.group()}"
        for path in written_files()
        if (match := MACHINE_PATH.search(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)
