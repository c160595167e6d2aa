"""Lengths of vectors and tensors, and what is done with them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.math.broadcasting import unbroadcast
from refluid.ops.registry import GradOp, gradient, operator
from refluid.ops.sparse.sparse import keeps_rows, on_values

_TINY = 1e-30
_PART = 32768  # numbers whose squares are summed at once


@operator("clip", outputs="Out", uses="X Min Max", differentiable="X")
@keeps_rows(merge=True)
def clip(
    X: Tensor, Min: Tensor | None = None, Max: Tensor | None = None, *, min: float, max: float
) -> Tensor:
    """X clamped to [min, max]; tensors of one element replace the attributes."""
    low, high = _bounds(Min, Max, min, max)
    if low > high:
        raise EnforceNotMet(f"max has to be at least min, but min is {low} and max {high}")
    return torch.clamp(X, low, high)


def _bounds(
    low: Tensor | None, high: Tensor | None, least: float, most: float
) -> tuple[float, float]:
    if low is None and high is None:
        return least, most
    return (least if low is None else low.item()), (most if high is None else high.item())


@gradient("clip")
def clip_grad(
    X: Tensor, Min: Tensor | None, Max: Tensor | None, d_Out: Tensor, *, min: float, max: float
) -> Tensor:
    """d_Out where min < X < max, else 0."""
    low, high = _bounds(Min, Max, min, max)
    return d_Out * ((low < X) & (high > X))


@operator("clip_by_norm", outputs="Out", uses=None, rows_suffice={"X": "Out"})
@keeps_rows(merge=True)
def clip_by_norm(X: Tensor, *, max_norm: float) -> Tensor:
    """X, scaled down to length max_norm where it is longer."""
    if max_norm <= 0.0:
        raise EnforceNotMet(f"max_norm has to be greater than 0 but is {max_norm}")
    length = X.norm()
    return X * torch.where(length > max_norm, max_norm / length, torch.ones_like(length))


@operator("squared_l2_norm", outputs="Out", uses="X", amp="keep", lod="", rows_suffice={"X": ""})
@on_values(merge=True)
def squared_l2_norm(X: Tensor) -> Tensor:
    """The sum of X², of shape (1,)."""
    flat = X.reshape(-1)
    whole = flat.numel() // _PART
    if whole < 2:
        return torch.dot(flat, flat).reshape(1)
    # Part by part, since one product of millions of numbers loses digits: 1e-5 of the sum.
    parts, rest = flat[: whole * _PART].view(whole, 1, _PART), flat[whole * _PART :]
    squares = torch.bmm(parts, parts.transpose(1, 2)).sum()
    return squares.add_(torch.dot(rest, rest)).reshape(1)


@gradient("squared_l2_norm")
def squared_l2_norm_grad(X: Tensor, d_Out: Tensor) -> Tensor:
    """2 * d_Out * X."""
    return X * (d_Out * 2.0)


@operator("l1_norm", outputs="Out", uses="X", amp="keep", lod="")
def l1_norm(X: Tensor) -> Tensor:
    """The sum of |X|, of shape (1,)."""
    return X.abs().sum().reshape(1)


@operator("norm", outputs="Norm Out", uses="X Norm", amp="keep", lod="")
def norm(X: Tensor, *, axis: int, epsilon: float = 1e-10) -> tuple[Tensor, Tensor]:
    """Out = X / Norm with Norm = sqrt(sum(X²) + epsilon) along `axis`."""
    length = (X * X).sum(axis, keepdim=True).add_(epsilon).sqrt_()
    return length, X / length


@gradient("norm")
def norm_grad(
    X: Tensor, Norm: Tensor, d_Out: Tensor, *, axis: int, epsilon: float = 1e-10
) -> Tensor:
    """(d_Out - sum(X * d_Out) * X / Norm²) / Norm."""
    if torch.is_grad_enabled():  # its own gradient depends on X through Norm too
        Norm = norm(X, axis=axis, epsilon=epsilon)[0]
    along = (X * d_Out).sum(axis, keepdim=True) * X / (Norm * Norm)
    return (d_Out - along) / Norm


@operator("p_norm", outputs="Out", uses="X Out", amp="keep")
def p_norm(
    X: Tensor,
    *,
    porder: float = 2.0,
    axis: int = -1,
    epsilon: float = 1e-12,
    keepdim: bool = False,
) -> Tensor:
    """sum(|X| ** porder) ** (1 / porder) along `axis`; porder may be 0 or infinite."""
    out: Tensor = torch.linalg.vector_norm(X, porder, axis, keepdim)
    return out if out.dim() else out.reshape(1)


@gradient("p_norm")
def p_norm_grad(
    X: Tensor,
    Out: Tensor,
    d_Out: Tensor,
    *,
    porder: float = 2.0,
    axis: int = -1,
    epsilon: float = 1e-12,
    keepdim: bool = False,
) -> Tensor:
    """d_Out * sign(X) * (|X| / Out) ** (porder - 1); at the extremes for an infinite porder."""
    shape = list(X.shape)
    shape[axis] = 1
    return _slope(X, Out.reshape(shape), porder) * d_Out.reshape(shape)


def sign_gradient(op: Operator) -> list[GradOp]:
    """Zero: the gradient scaled by 0."""
    inputs = {"X": [name + GRAD for name in op.output("Out")]}
    outputs = {"Out": [name + GRAD for name in op.input("X")]}
    return [GradOp("scale", inputs, outputs, {"scale": 0.0})]


@operator("sign", outputs="Out", maker=sign_gradient)
def sign(X: Tensor) -> Tensor:
    """-1, 0 or 1."""
    return torch.sign(X)


@operator("dist", outputs="Out", uses="X Y Out", amp="keep", lod="")
def dist(X: Tensor, Y: Tensor, *, p: float = 2.0) -> Tensor:
    """The p-norm of X - Y, which broadcast, of shape (1,)."""
    return torch.dist(X, Y, p).reshape(1)


@gradient("dist")
def dist_grad(
    X: Tensor, Y: Tensor, Out: Tensor, d_Out: Tensor, *, p: float = 2.0
) -> tuple[Tensor, Tensor]:
    """The gradient of the norm of X - Y, summed over what was broadcast."""
    gap = X - Y
    slope = _slope(gap, Out, p) * d_Out
    rank = slope.dim()
    return unbroadcast(slope, X, rank - X.dim()), -unbroadcast(slope, Y, rank - Y.dim())


def _slope(X: Tensor, length: Tensor, order: float) -> Tensor:
    """The derivative of the norm of that order, whose value is `length`."""
    if order == 0:
        return torch.zeros_like(X)
    if math.isinf(order):
        return torch.sign(X) * (X.abs() == length)
    power = order - 1.0
    return torch.sign(X) * (X.abs() / length.clamp(min=_TINY)) ** power


@operator(
    "cos_sim",
    gradient_lod="none",
    outputs="Out XNorm YNorm",
    uses="X Y Out XNorm YNorm",
    amp="keep",
    extra={"@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@": True},
)
def cos_sim(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cosines of the rows of X and Y (or its one row), of shape (rows, 1); the rows' lengths."""
    x, y = X.flatten(1), Y.flatten(1)
    x_norm = (x * x).sum(1, keepdim=True).sqrt()
    y_norm = (y * y).sum(1, keepdim=True).sqrt()
    return (x * y).sum(1, keepdim=True) / x_norm / y_norm, x_norm, y_norm


@gradient("cos_sim")
def cos_sim_grad(
    X: Tensor, Y: Tensor, Out: Tensor, XNorm: Tensor, YNorm: Tensor, d_Out: Tensor
) -> tuple[Tensor, Tensor]:
    """d_X = d_Out * (Y / |X||Y| - Out * X / |X|²), d_Y likewise and summed for one row."""
    x, y = X.flatten(1), Y.flatten(1)
    product = XNorm * YNorm
    d_x = d_Out * (y / product - Out * x / (XNorm * XNorm))
    d_y = d_Out * (x / product - Out * y / (YNorm * YNorm))
    d_y = d_y.sum(0, keepdim=True) if Y.shape[0] == 1 else d_y
    return d_x.reshape(X.shape), d_y.reshape(Y.shape)
