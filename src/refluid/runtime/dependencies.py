"""What the statements of a plan must wait for, so that they may run out of order.

A statement waits for those that make the values it reads, and before it gives a name another value
or overwrites memory, for those that read it. What has effects outside the plan (random numbers,
communication, printing) keeps its order.
"""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from refluid.ir.operator import Operator
from refluid.ops.effects import OUTSIDE
from refluid.ops.registry import find
from refluid.runtime.source import Source

_CELLS = "C"
_GIVEN = frozenset({"F", "C", "L", *dir(builtins)})
_COMPOUND = (ast.While, ast.For, ast.If)


@dataclass
class Statement:
    """One statement: its lines, the names it reads, and those it gives values or overwrites."""

    first: int
    last: int
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    overwrites: set[str] = field(default_factory=set)
    ordered: bool = False


def statements(source: Source, overwriting: Callable[[int, str], bool]) -> list[Statement]:
    """All statements of the plan's function but the last, its `return`.

    overwriting: whether the call on a line, of that function, overwrites its arguments.
    """
    (function,) = ast.parse(source.text).body
    assert isinstance(function, ast.FunctionDef)
    known = source.constants.keys() | _GIVEN
    return [_read(node, source, known, overwriting) for node in function.body[:-1]]


def _read(
    node: ast.stmt,
    source: Source,
    constants: Iterable[str],
    overwriting: Callable[[int, str], bool],
) -> Statement:
    found = Statement(node.lineno, node.end_lineno or node.lineno)
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id not in constants and part.id != "_":
            place = found.reads if isinstance(part.ctx, ast.Load) else found.writes
            place.add(part.id)
        elif isinstance(part, ast.Attribute):
            place = found.reads if isinstance(part.ctx, ast.Load) else found.writes
            place |= _cell(part)
        elif isinstance(part, ast.keyword):
            found.ordered |= part.arg in ("random", "comm")
        elif _calls(part, overwriting):
            found.overwrites |= {one.id for one in ast.walk(part) if isinstance(one, ast.Name)}
    found.overwrites -= {*constants, "_"}
    ops = [source.origin.get(line) for line in range(found.first, found.last + 1)]
    found.ordered |= any(op is not None and _acts_outside(op) for op in ops)
    if isinstance(node, _COMPOUND):
        found.overwrites |= found.reads | found.writes
    return found


def _calls(part: ast.AST, functions: Callable[[int, str], bool]) -> bool:
    return (
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Name)
        and functions(part.lineno, part.func.id)
    )


def _cell(part: ast.Attribute) -> set[str]:
    """`C[3].value` as a name of its own."""
    value = part.value
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
        return {ast.unparse(value)} if value.value.id == _CELLS else set()
    return set()


def _acts_outside(op: Operator) -> bool:
    definition = find(op.type)
    return definition is None or definition.inline or bool(definition.effects & OUTSIDE)


def predecessors(found: Sequence[Statement], memory: Callable[[str], str]) -> list[set[int]]:
    """For each statement the earlier ones that it waits for.

    memory: name -> one name for all that may share its memory.
    """
    made: dict[str, int] = {}
    readers: defaultdict[str, set[int]] = defaultdict(set)
    users: defaultdict[str, set[int]] = defaultdict(set)
    changed: dict[str, int] = {}
    former: int | None = None
    result = []
    for number, one in enumerate(found):
        waits: set[int] = set()
        for name in one.reads | one.writes | one.overwrites:
            waits |= {made[name]} if name in made else set()
            waits |= {changed[memory(name)]} if memory(name) in changed else set()
        for name in one.writes:
            waits |= readers[name]
        for name in one.overwrites:
            waits |= users[memory(name)]
        if one.ordered:
            waits |= set() if former is None else {former}
            former = number
        waits.discard(number)
        result.append(waits)
        for name in one.reads:
            readers[name].add(number)
        for name in one.writes:
            made[name], readers[name] = number, set()
        for name in one.overwrites:
            changed[memory(name)], users[memory(name)] = number, set()
        for name in one.reads | one.writes:
            users[memory(name)].add(number)
    return result
