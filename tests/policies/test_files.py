"""Policies about files: how long they may be, what they may be called, what they may name."""

from __future__ import annotations

import ast
import re
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


@pytest.mark.parametrize("path", python_files(), ids=name_of)
def test_python_files_stay_small(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    most = 450 if path == COPIED_ALONE else MAX_FILE_LINES
    assert len(source.splitlines()) <= most, "split this file: one idea per file"
    too_long = [
        f"{node.name} ({length(node)} lines)"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, FUNCTIONS) and length(node) > MAX_FUNCTION_LINES
    ]
    assert not too_long, f"more than {MAX_FUNCTION_LINES} lines: {', '.join(too_long)}"


def test_file_names_say_what_is_inside() -> None:
    vague = {name_of(path) for path in python_files() if path.name in BANNED_NAMES}
    assert not vague - GIVEN_NAMES


@pytest.mark.parametrize("path", written_files(), ids=name_of)
def test_no_machines_own_paths(path: Path) -> None:
    found = MACHINE_PATH.search(path.read_text(encoding="utf-8"))
    assert found is None, f"names a folder of one machine: {found and found.group()}"
