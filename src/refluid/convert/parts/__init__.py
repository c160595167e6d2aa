"""Code in plain PyTorch that converted models need where torch has no function: copied into them.

Files here import nothing but torch and math, and each function and class stands on its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Snippet:
    """A function or class: its text, and the names in it."""

    name: str
    text: str
    names: frozenset[str]


@cache
def parts() -> dict[str, Snippet]:
    """All there are, in the order of their files."""
    found = {}
    for file in sorted(Path(__file__).parent.glob("*.py")):
        if file.name == "__init__.py":
            continue
        text = file.read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                segment = ast.get_source_segment(text, node)
                assert segment is not None and node.name not in found, node.name
                found[node.name] = Snippet(node.name, segment, frozenset(_words(segment)))
    return found


def used_by(text: str) -> list[Snippet]:
    """The parts that a text calls, with those that they call, each after what it needs."""
    order: dict[str, Snippet] = {}
    for name in parts():
        if re.search(rf"(?<![\w.]){name}\(", text):
            _add(name, order)
    return list(order.values())


def _add(name: str, order: dict[str, Snippet]) -> None:
    if name not in order:
        part = parts()[name]
        for other in sorted(part.names & set(parts()) - {name}):
            _add(other, order)
        order[name] = part


def _words(text: str) -> Iterator[str]:
    return (node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))
