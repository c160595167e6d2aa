"""What the lines of a recorded step do that are no kernels: state, exchange, operators."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Literal

from refluid.ir.operator import Operator
from refluid.ops.effects import Effect
from refluid.ops.registry import OperatorDef, facts_of, find
from refluid.runtime.joined.align import Unlike
from refluid.runtime.recorded.graph import Line, Value

_LOADED = re.compile(r"\w+ = C\[(\d+)\]\.value")
_STORED = re.compile(r"C\[(\d+)\]\.value = \w+")
_CELL = re.compile(r"C\[(\d+)\]\.value")
_OUTSIDE = frozenset({"F", "C", "L", "turn"})

Kind = Literal[
    "feeds", "load", "store", "sum", "wait", "ghost", "same", "return", "operator", "branch"
]


@dataclass(frozen=True)
class Meaning:
    """What a line is for. cell: of the variable loaded or stored. pairs: what a sum sums, where to.

    draws: it takes random numbers. overwrites: it may change what it is given. cells: of the
    variables that a branch sets.
    """

    kind: Kind
    cell: int = -1
    pairs: tuple[tuple[Value, Value], ...] = ()
    draws: bool = False
    overwrites: bool = False
    cells: tuple[int, ...] = ()


def meaning(line: Line) -> Meaning:
    """Raises Unlike for what several replicas cannot do in one thread."""
    statement = line.statement
    if isinstance(statement, ast.Return):
        return Meaning("return")
    if isinstance(statement, ast.If):
        return _branch(line, statement)
    if not isinstance(statement, ast.Assign | ast.Expr):
        raise Unlike("the program has loops")
    text = ast.unparse(statement)
    if text.endswith(" = F"):
        return Meaning("feeds")
    if found := _LOADED.fullmatch(text):
        return Meaning("load", int(found[1]))
    if found := _STORED.fullmatch(text):
        return Meaning("store", int(found[1]))
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    if names & _OUTSIDE:
        raise Unlike("a line of the plan reads feeds or variables in another way")
    if "comm" in names:
        return _exchange(line, statement)
    if set(line.stores.values()) <= set(line.loads.values()) and line.op is None:
        return Meaning("same")
    call = statement.value
    if isinstance(call, ast.Constant):
        return Meaning("operator")
    if line.op is None:
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("ghost"):
            return Meaning("ghost")
        raise Unlike(f"the plan has the line {text!r}")
    return _operator(line, "random" in names)


def _operator(line: Line, draws: bool) -> Meaning:
    assert line.op is not None
    definition = _quiet(line.op)
    return Meaning("operator", draws=draws, overwrites=bool(definition.mutates))


def _quiet(op: Operator) -> OperatorDef:
    """Raises Unlike for an operator with effects that its outputs do not tell of."""
    definition = find(op.type)
    if definition is None or definition.inline or definition.effects & (Effect.COMM | Effect.HOST):
        raise Unlike(f"operator {op.type} has effects outside the step")
    body = definition.body
    if body is not None and not body.__module__.startswith("refluid.ops."):
        raise Unlike(f"operator {op.type} is the user's")
    return definition


def _branch(line: Line, statement: ast.If) -> Meaning:
    """One that sets values and variables; it has to be the same for all replicas."""
    cells = set(map(int, _CELL.findall(ast.unparse(statement))))
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    calls = {call for call in names if call not in line.loads and call not in line.stores}
    if line.op is None or calls & {"F", "L", "turn", "comm", "random"}:
        raise Unlike("the program has branches that do more than set values")
    for block in line.op.sub_blocks():
        for op in block.ops:
            if list(op.sub_blocks()):
                raise Unlike("the program has branches in branches")
            _quiet(op)
    return Meaning("branch", cells=tuple(sorted(cells)))


def _exchange(line: Line, statement: ast.Assign | ast.Expr) -> Meaning:
    op, call = line.op, statement.value
    if op is not None and op.type == "replica_barrier":
        return Meaning("wait")
    if op is None or not facts_of(op.type).sums_replicas or not isinstance(call, ast.Call):
        raise Unlike(f"the replicas exchange values by {op.type if op else 'a line'}")
    if op.attrs.get("reduce_type") or not isinstance(statement, ast.Assign):
        raise Unlike("the replicas exchange something else than sums")
    summed, made = _names(call.args[0]), _names(statement.targets[0])
    pairs = zip(summed, made, strict=True)
    return Meaning(
        "sum", pairs=tuple((line.loads[one], line.stores[out]) for one, out in pairs if out != "_")
    )


def _names(node: ast.expr) -> list[str]:
    parts = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    return [part.id for part in parts if isinstance(part, ast.Name)]
