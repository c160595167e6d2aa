"""Operators of a time step that need no earlier step, put before the loop for all steps at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ops.registry import facts_of
from refluid.passes.time_steps.loop import Loop
from refluid.passes.time_steps.products import ALL_STEPS, is_product

# Type and attributes of the operator that does the same to all steps; None where there is none.
ForAllSteps = Callable[[Loop, Operator], "tuple[str, dict[str, Any]] | None"]


def hoist(loop: Loop) -> list[str]:
    """Moves what can be moved, also what then follows from it; the types of what was moved."""
    moved: list[str] = []
    for op in list(loop.body.ops):
        made = _of_all_steps(loop, op)
        if made is not None:
            loop.before.append(made)
            loop.hoisted.append(op)
            Editor(loop.body).remove(op)
            loop.add_input("inputs", op.output("Out")[0])
            moved.append(op.type)
    loop.place()
    return moved


def of_all_steps(loop: Loop, op: Operator) -> tuple[str, dict[str, Any]] | None:
    """Type and attributes of the operator that does it to all steps' values."""
    facts = facts_of(op.type)
    rule = _product if facts.matrix_product else _RULES.get(facts.stacked)
    return None if rule is None else rule(loop, op)


def _of_all_steps(loop: Loop, op: Operator) -> Operator | None:
    """The operator for all steps, where its inputs and its result may be outside."""
    found = of_all_steps(loop, op)
    if found is None or not loop.is_step(op.input("X")[0]) or loop.leaves(op.output("Out")[0]):
        return None
    (out,) = op.output("Out")
    loop.declare(out, [loop.steps, *loop.shape(out)], like=out)
    return loop.make(op, found[0], dict(op.inputs), {"Out": [out]}, found[1])


def _product(loop: Loop, op: Operator) -> tuple[str, dict[str, Any]] | None:
    return ("mul", dict(ALL_STEPS)) if is_product(loop, op) else None


def _with_invariant(loop: Loop, op: Operator) -> tuple[str, dict[str, Any]] | None:
    """X and a Y that all steps share, which keeps its place beside the later axes of X."""
    (x,), (y,) = op.input("X"), op.input("Y")
    rank = len(loop.shape(y))
    if not loop.is_invariant(y) or not 0 < rank < len(loop.shape(x)):
        return None
    axis = op.attrs.get("axis", -1)
    return op.type, {**op.attrs, "axis": axis if axis < 0 else axis + 1}


def _as_it_is(_loop: Loop, op: Operator) -> tuple[str, dict[str, Any]] | None:
    return op.type, dict(op.attrs)


# By what the operator says of stacked values.
_RULES: dict[str, ForAllSteps] = {"alike": _as_it_is, "beside Y": _with_invariant}
