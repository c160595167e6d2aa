"""What the lines of a recorded step do that are no kernels: state, exchange, operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from refluid.ir.operator import Operator
from refluid.ops.effects import Effect
from refluid.ops.registry import OperatorDef, facts_of, find
from refluid.runtime.batched.align import Unlike
from refluid.runtime.printing import text_of
from refluid.runtime.recorded.graph import Line, Value
from refluid.runtime.steps import Bind, Call, Compound, If, Load, Return, Step, Store
from refluid.runtime.trees import (
    COMM,
    FED,
    FED_LODS,
    IGNORED,
    RANDOM,
    CellName,
    Formula,
    Known,
    Name,
    Tree,
    leaves,
)

_OUTSIDE = frozenset({FED, FED_LODS, Known("turn")})

MeaningKind = Literal[
    "feeds", "load", "store", "sum", "wait", "placeholder", "same", "return", "operator", "branch"
]


@dataclass(frozen=True)
class Meaning:
    """What a line is for. cell: of the variable loaded or stored. pairs: what a sum sums, where to.

    draws: it takes random numbers. overwrites: it may change what it is given. cells: of the
    variables that a branch sets.
    """

    kind: MeaningKind
    cell: int = -1
    pairs: tuple[tuple[Value, Value], ...] = ()
    draws: bool = False
    overwrites: bool = False
    cells: tuple[int, ...] = ()


def meaning(line: Line) -> Meaning:
    """Raises Unlike for what several replicas cannot do in one thread."""
    step = line.step
    if isinstance(step, Return):
        return Meaning("return")
    if isinstance(step, If):
        return _branch(line, step)
    if isinstance(step, Compound):
        raise Unlike("the program has loops")
    if isinstance(step, Bind) and step.value is FED:
        return Meaning("feeds")
    if isinstance(step, Load):
        return Meaning("load", step.cell.number)
    if isinstance(step, Store) and isinstance(step.value, Name):
        return Meaning("store", step.cell.number)
    if step.known & _OUTSIDE or _cells(step):
        raise Unlike("a line of the plan reads feeds or variables in another way")
    if COMM in step.known:
        return _exchange(line, step)
    if set(line.stores.values()) <= set(line.loads.values()) and line.op is None:
        return Meaning("same")
    if isinstance(step, Bind) and not isinstance(step.value, Name | Formula):
        return Meaning("operator")
    if line.op is None:
        if isinstance(step, Call) and step.function == "placeholder":
            return Meaning("placeholder")
        raise Unlike(f"the plan has the line {text_of(step)!r}")
    return _operator(line, RANDOM in step.known)


def _cells(step: Step) -> set[int]:
    return {one.number for one in step.reads | step.writes if isinstance(one, CellName)}


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


def require_quiet(op: Operator) -> None:
    """Raises Unlike for an operator that must not run once more to be recorded, as a push."""
    definition = find(op.type)
    acts = definition is not None and definition.effects & (Effect.COMM | Effect.HOST)
    waits = not (op.input_arg_names or op.output_arg_names)
    if acts and not waits and not facts_of(op.type).sums_replicas:
        raise Unlike(f"operator {op.type} has effects outside the step")


def _branch(line: Line, step: If) -> Meaning:
    """One that sets values and variables; it has to be the same for all replicas."""
    if line.op is None or step.known & {*_OUTSIDE, COMM, RANDOM}:
        raise Unlike("the program has branches that do more than set values")
    for block in line.op.sub_blocks():
        for op in block.ops:
            if op.has_sub_blocks:
                raise Unlike("the program has branches in branches")
            _quiet(op)
    return Meaning("branch", cells=tuple(sorted(_cells(step))))


def _exchange(line: Line, step: Step) -> Meaning:
    op = line.op
    if op is not None and not (op.input_arg_names or op.output_arg_names):
        return Meaning("wait")
    if op is None or not facts_of(op.type).sums_replicas or not isinstance(step, Call):
        raise Unlike(f"the replicas exchange values by {op.type if op else 'a line'}")
    if op.attrs.get("reduce_type") or step.target is None:
        raise Unlike("the replicas exchange something else than sums")
    pairs = zip(_names(step.args[0]), _names(step.target), strict=True)
    return Meaning(
        "sum",
        pairs=tuple((line.loads[one], line.stores[out]) for one, out in pairs if out != IGNORED),
    )


def _names(tree: Tree) -> list[Name]:
    return [one for one in leaves(tree) if isinstance(one, Name)]
