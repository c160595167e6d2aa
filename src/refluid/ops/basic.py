"""Constants, copies, casts and scaling."""

from __future__ import annotations

from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.reading import is_unknown
from refluid.ops.registry import GradOp, operator
from refluid.ops.sparse import keeps_rows


def _through(op: Operator, type: str, **attrs: object) -> list[GradOp]:
    (source,), (out,) = op.input("X"), op.output("Out")
    return [GradOp(type, {"X": [out + GRAD]}, {"Out": [source + GRAD]}, attrs)]


def scale_gradient(op: Operator) -> list[GradOp]:
    """The gradient scaled likewise, without the bias."""
    (made,) = _through(op, "scale", scale=op.attr("scale"), bias=0.0, bias_after_scale=True)
    inputs = {**made.inputs, "ScaleTensor": op.input("ScaleTensor")}
    return [GradOp("scale", inputs, made.outputs, made.attrs)]


@operator("scale", outputs="Out", maker=scale_gradient)
@keeps_rows()
def scale(
    X: Tensor,
    ScaleTensor: Tensor | None = None,
    *,
    scale: float = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
) -> Tensor:
    """scale * X + bias, or scale * (X + bias); a ScaleTensor of one element replaces `scale`."""
    factor: Tensor | float = scale if ScaleTensor is None else ScaleTensor
    if not X.is_floating_point():
        factor = factor if isinstance(factor, Tensor) else int(factor)
        bias = int(bias)
    if not bias_after_scale and bias:
        return (X + bias) * factor
    out = X * factor
    return out.add_(bias) if bias else out


def minus_gradient(op: Operator) -> list[GradOp]:
    """The gradient for X, and its negative for Y."""
    inputs = {"X": [name + GRAD for name in op.output("Out")]}
    return [
        GradOp("scale", inputs, {"Out": [name + GRAD for name in op.input(slot)]}, {"scale": sign})
        for slot, sign in (("X", 1.0), ("Y", -1.0))
    ]


@operator("minus", outputs="Out", maker=minus_gradient)
def minus(X: Tensor, Y: Tensor) -> Tensor:
    """X - Y."""
    return X - Y


def cast_gradient(op: Operator) -> list[GradOp]:
    """The gradient cast back."""
    kinds = {"in_dtype": op.attr("out_dtype"), "out_dtype": op.attr("in_dtype")}
    return _through(op, "cast", **kinds)


@operator("cast", outputs="Out", maker=cast_gradient, views={"Out": "X"})
def cast(X: Tensor, *, in_dtype: int, out_dtype: int) -> Tensor:
    """X with element type `out_dtype`."""
    return X.to(to_torch(VarType(out_dtype)))


def assign_gradient(op: Operator) -> list[GradOp]:
    """The gradient as it is."""
    return _through(op, "assign")


@operator("assign", outputs="Out", maker=assign_gradient, views={"Out": "X"})
def assign(X: Tensor) -> Tensor:
    """X."""
    return X


def increment_gradient(op: Operator) -> list[GradOp]:
    """Takes the counter back, so that the backward pass of a loop counts down."""
    slots = {"X": op.output("Out")}, {"Out": op.input("X")}
    return [GradOp("increment", *slots, {"step": -op.attr("step")})]


@operator("increment", outputs="Out", maker=increment_gradient, reverted=True)
def increment(X: Tensor, *, step: float = 1.0) -> Tensor:
    """X + step, for X of one element."""
    if X.numel() != 1 and not any(map(is_unknown, X.shape)):
        raise EnforceNotMet(
            f"The number of elements in Input(X) should be 1. Now the number is {X.numel()}."
        )
    return X + (step if X.is_floating_point() else int(step))
