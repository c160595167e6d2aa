"""Pages name only files that exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
# `ops/probing.py`, `tests/policies/` and links to other pages.
_NAMED = re.compile(
    r"`((?:[\w.-]+/)*[\w-]+\.(?:py|toml|md|proto)|(?:[\w.-]+/)+)`|\]\(([\w./-]+\.md)"
)
# A page of the past, and what belongs to users, to Paddle or to another kind of name.
_HISTORY = {"CHANGELOG.md"}
_OTHERS = {
    "demo-output/",
    "fit.py",
    "model.py",
    "profile.py",
    "train.py",
    "refluid.proto",
    "tools/timeline.py",
}

_FOLDERS_OF_OTHERS = (
    *("dygraph/", "PaddleCV/", "PaddleNLP/", "PaddleRec/", "PaddleSpeech/"),
    *("ERNIE/", "PaddleDetection/", "PaddleOCR/", "PaddleSeg/"),
)


def missing(page: str, files: Iterable[str]) -> list[str]:
    """What a page names and the repository has not, at any depth."""
    known = _ends(files)
    folders = _ends({one.rpartition("/")[0] + "/" for one in files})
    found = []
    for match in _NAMED.finditer(page):
        name = match[1] or match[2]
        if name.startswith(_FOLDERS_OF_OTHERS):
            continue
        there = folders if name.endswith("/") else known
        if name not in _OTHERS and name not in there:
            found.append(name)
    return found


def _ends(paths: Iterable[str]) -> set[str]:
    """The paths, and what is left of each without its first folders."""
    found = set()
    for path in paths:
        while path.strip("/"):
            found.add(path)
            path = path.partition("/")[2]
    return found


@cache
def _files() -> list[str]:
    rooms = ("src", "tests", "docs", "scripts", "benchmarks", "examples", "paddle-shim", ".ci")
    paths = [path for room in rooms for path in (ROOT / room).rglob("*") if path.is_file()]
    return [path.relative_to(ROOT).as_posix() for path in (*paths, *ROOT.glob("*"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_pages_name_exist(page: Path) -> None:
    if page.name not in _HISTORY:
        assert not missing(page.read_text(encoding="utf-8"), _files())


def test_what_is_missing_is_found() -> None:
    page = "`ops/probing.py`, `ops/gone.py`, `runtime/batched/`, `no/where/`, [x](gone.md)"
    files = ["src/refluid/ops/probing.py", "src/refluid/runtime/batched/text.py"]
    assert missing(page, files) == ["ops/gone.py", "no/where/", "gone.md"]
