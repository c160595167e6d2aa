"""Tables of what Fluid has and refluid doesn't yet: module -> name -> signature, with reasons.

A table is a text in the syntax of Python's stub files. Its first docstring is the reason, the line
`# fluid.dygraph.base` starts what the module of that name has:

    \"\"\"networks that run at once are not there yet; write the program with fluid.layers\"\"\"
    # fluid.dygraph.base
    from fluid.dygraph.layers import Layer
    def guard(place=None): ...
    class Net(Layer):
        def forward(self, x): ...
    DEFAULT = 3

`from a import b` may name what refluid has. A name that is deleted from its table because refluid
has it now needs nothing else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_HEAD = re.compile(r"^# ([\w.]+)\n", re.MULTILINE)
_FOLDER = Path(__file__).resolve().parents[1] / "stubs"


class Section(NamedTuple):
    """What a table has for one module, not yet parsed."""

    reason: str
    text: str


class StubEntry(NamedTuple):
    """One name of a module: how the table spells it, and why it is not there."""

    spelled: ast.stmt
    reason: str


@cache
def sections() -> dict[str, list[Section]]:
    """All modules of all tables, by their names below `refluid`."""
    found: dict[str, list[Section]] = {}
    for path in sorted(_FOLDER.glob("*.stub")):
        start, *parts = _HEAD.split(path.read_text(encoding="utf-8"))
        reason = ast.get_docstring(ast.parse(start)) or ""
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            found.setdefault(name, []).append(Section(" ".join(reason.split()), text))
    return found


@cache
def packages() -> frozenset[str]:
    """Modules of the tables that others lie in."""
    return frozenset(parent for name in sections() for parent in _parents(name))


def _parents(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def is_stub(module: str) -> bool:
    """Whether the tables have a module of that name."""
    return module in sections() or module in packages()


@cache
def entries(module: str) -> dict[str, StubEntry]:
    """What the tables have in a module, by name; nothing where they don't know it."""
    found: dict[str, StubEntry] = {}
    for section in sections().get(module, []):
        for one in ast.parse(section.text).body:
            found |= dict.fromkeys(_names(one), StubEntry(one, section.reason))
    return found


def _names(spelled: ast.stmt) -> list[str]:
    match spelled:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [one.asname or one.name for one in names]
        case ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
    raise ValueError(f"a table has {ast.unparse(spelled)!r}")
