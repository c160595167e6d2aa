"""Copies, casts and counting up."""

from __future__ import annotations

from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.gradient_slots import gradient_through
from refluid.ops.reading import is_unknown
from refluid.ops.registry import GradOp, operator


def cast_gradient(op: Operator) -> list[GradOp]:
    """The gradient cast back."""
    kinds = {"in_dtype": op.attr("out_dtype"), "out_dtype": op.attr("in_dtype")}
    return gradient_through(op, "cast", **kinds)


@operator(
    "cast",
    outputs="Out",
    maker=cast_gradient,
    views={"Out": "X"},
    casts=True,
    by_autograd="always",
)
def cast(X: Tensor, *, in_dtype: int, out_dtype: int) -> Tensor:
    """X with element type `out_dtype`; of complex numbers the real parts where that is real."""
    kind = to_torch(VarType(out_dtype))
    return (X.real if X.dtype.is_complex and not kind.is_complex else X).to(kind)


def assign_gradient(op: Operator) -> list[GradOp]:
    """The gradient as it is."""
    return gradient_through(op, "assign")


@operator(
    "assign",
    outputs="Out",
    maker=assign_gradient,
    views={"Out": "X"},
    copies=True,
    ahead=lambda _: 0.0,
)
def assign(X: Tensor) -> Tensor:
    """X."""
    return X


def increment_gradient(op: Operator) -> list[GradOp]:
    """Takes the counter back, so that the backward pass of a loop counts down."""
    slots = {"X": op.output("Out")}, {"Out": op.input("X")}
    return [GradOp("increment", *slots, {"step": -op.attr("step")})]


@operator(
    "increment",
    outputs="Out",
    maker=increment_gradient,
    reverted=True,
    ahead=lambda op: op.attr("step"),
)
def increment(X: Tensor, *, step: float = 1.0) -> Tensor:
    """X + step, for X of one element."""
    if X.numel() != 1 and not any(map(is_unknown, X.shape)):
        raise EnforceNotMet(
            f"The number of elements in Input(X) should be 1. Now the number is {X.numel()}."
        )
    return X + (step if X.is_floating_point() else int(step))
