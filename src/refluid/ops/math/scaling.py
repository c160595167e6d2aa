"""scale and minus: a factor and a constant, and a difference."""

from __future__ import annotations

from torch import Tensor

from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.gradient_slots import gradient_through
from refluid.ops.registry import GradOp, operator
from refluid.ops.required import require_equal
from refluid.ops.sparse.sparse import keeps_rows


def scale_gradient(op: Operator) -> list[GradOp]:
    """The gradient scaled likewise, without the bias."""
    (made,) = gradient_through(op, "scale", scale=op.attr("scale"), bias=0.0, bias_after_scale=True)
    inputs = {**made.inputs, "ScaleTensor": op.input("ScaleTensor")}
    return [GradOp("scale", inputs, made.outputs, made.attrs)]


def _ahead(op: Operator) -> float | None:
    """The bias, where nothing is scaled."""
    plain = op.attr("scale") == 1.0 and not op.input("ScaleTensor")
    return float(op.attr("bias")) if plain else None


def _times(op: Operator) -> float | None:
    """The factor, where nothing is added."""
    plain = not op.attr("bias") and not op.input("ScaleTensor")
    return float(op.attr("scale")) if plain else None


def _scaled_rows(op: Operator) -> dict[str, str]:
    """Rows that aren't there stay zero without a bias."""
    return {} if op.attr("bias") else {"X": "Out"}


@operator(
    "scale",
    outputs="Out",
    maker=scale_gradient,
    by_autograd="always",
    ahead=_ahead,
    times=_times,
    rows_suffice=_scaled_rows,
)
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
    if not (X.is_floating_point() or X.is_complex()):
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


@operator("minus", outputs="Out", maker=minus_gradient, by_autograd="always")
def minus(X: Tensor, Y: Tensor) -> Tensor:
    """X - Y."""
    require_equal("Y", Y, "X", X.shape)
    return X - Y
