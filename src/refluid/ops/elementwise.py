"""Binary operators, Y broadcast onto X from dimension `axis`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.broadcasting import infer_broadcast
from refluid.ops.extras import ELEMENTWISE
from refluid.ops.indicating import indicator
from refluid.ops.registry import gradient, in_place, operator
from refluid.ops.sparse import keeps_rows

Comparison = Callable[..., Tensor]
_FLAGS: dict[str, Any] = {"extra": ELEMENTWISE, "amp": "promote", "infer": infer_broadcast()}


def align(X: Tensor, Y: Tensor, axis: int) -> Tensor:
    """Y with dimensions of size 1 added, so that it broadcasts onto X from dimension `axis`.

    axis -1 aligns the last dimensions. Trailing dimensions of size 1 of Y don't count.
    """
    if X.shape == Y.shape or axis == -1 or axis + Y.dim() == X.dim():
        return Y
    if not 0 <= axis < max(X.dim(), Y.dim()):
        raise EnforceNotMet(
            f"axis is {axis} but has to be -1, or from 0 to below {max(X.dim(), Y.dim())}: "
            f"X is {list(X.shape)}, Y {list(Y.shape)}"
        )
    shape = list(Y.shape)
    while len(shape) > 1 and axis + len(shape) > X.dim() and shape[-1] == 1:
        shape.pop()
    return Y.reshape(shape + [1] * (X.dim() - axis - len(shape)))


def unbroadcast(grad: Tensor, like: Tensor, axis: int) -> Tensor:
    """The gradient of Y from that of the broadcast Y: summed over the dimensions added."""
    if grad.shape == like.shape:
        return grad
    rank = grad.dim()
    shape = list(like.shape)
    start = rank - len(shape) if axis == -1 else axis
    while len(shape) > 1 and start + len(shape) > rank and shape[-1] == 1:
        shape.pop()
    lead, tail = max(start, 0), rank - start - len(shape)
    dims = list(range(lead)) + list(range(rank - tail, rank))
    dims += [
        lead + index
        for index, size in enumerate(shape)
        if size == 1 and grad.shape[lead + index] != 1
    ]
    return grad.sum(dims).reshape(like.shape) if dims else grad.reshape(like.shape)


@operator(
    "elementwise_add",
    outputs="Out",
    uses="X Y",
    extra=ELEMENTWISE,
    amp="promote",
    infer=infer_broadcast(),
)
def elementwise_add(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
    """X + Y."""
    return X + align(X, Y, axis)


@in_place("elementwise_add", "X")
def elementwise_add_(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
    """`elementwise_add` over X, where the result is of X's shape and type."""
    y = align(X, Y, axis)
    if y.dim() > X.dim() or y.numel() > X.numel() or X.dtype != y.dtype:
        return X + y
    return X.add_(y)


@in_place("elementwise_add", "Y")
def elementwise_add_over_y(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
    """`elementwise_add` over Y, where the result is of Y's shape and type."""
    if X.shape != Y.shape or X.dtype != Y.dtype:
        return X + align(X, Y, axis)
    return Y.add_(X)


@gradient("elementwise_add", views={"d_X": "d_Out", "d_Y": "d_Out"})
def elementwise_add_grad(
    X: Tensor,
    Y: Tensor,
    d_Out: Tensor,
    *,
    axis: int = -1,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None]:
    """d_X = d_Out, d_Y = d_Out summed over what was broadcast."""
    d_X = unbroadcast(d_Out, X, -1) if need[0] else None
    return d_X, unbroadcast(d_Out, Y, axis) if need[1] else None


@operator(
    "elementwise_sub",
    outputs="Out",
    uses="X Y",
    extra=ELEMENTWISE,
    amp="promote",
    infer=infer_broadcast(),
)
def elementwise_sub(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
    """X - Y."""
    return X - align(X, Y, axis)


@gradient("elementwise_sub", views={"d_X": "d_Out"})
def elementwise_sub_grad(
    X: Tensor,
    Y: Tensor,
    d_Out: Tensor,
    *,
    axis: int = -1,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None]:
    """d_X = d_Out, d_Y = -d_Out summed over what was broadcast."""
    d_X = unbroadcast(d_Out, X, -1) if need[0] else None
    return d_X, -unbroadcast(d_Out, Y, axis) if need[1] else None


@operator(
    "elementwise_mul",
    outputs="Out",
    uses="X Y",
    extra=ELEMENTWISE,
    amp="promote",
    infer=infer_broadcast(),
)
@keeps_rows()
def elementwise_mul(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
    """X * Y."""
    return X * align(X, Y, axis)


@gradient("elementwise_mul")
def elementwise_mul_grad(
    X: Tensor,
    Y: Tensor,
    d_Out: Tensor,
    *,
    axis: int = -1,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None]:
    """d_X = d_Out * Y, d_Y = d_Out * X summed over what was broadcast."""
    d_X = unbroadcast(d_Out * align(X, Y, axis), X, -1) if need[0] else None
    return d_X, unbroadcast(d_Out * X, Y, axis) if need[1] else None


def _define(name: str, compute: Callable[[Tensor, Tensor], Tensor], doc: str, uses: str) -> None:
    def body(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
        return compute(X, align(X, Y, axis))

    body.__name__, body.__doc__ = name, doc
    operator(
        name,
        outputs="Out",
        uses=uses or None,
        extra=ELEMENTWISE,
        amp="promote",
        infer=infer_broadcast(),
    )(body)


def _divide(x: Tensor, y: Tensor) -> Tensor:
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


_define("elementwise_div", _divide, "X / Y; integers are cut towards zero.", "X Y Out")
_define("elementwise_pow", torch.pow, "X to the power of Y.", "X Y")
_define("elementwise_max", torch.maximum, "The larger of X and Y.", "X Y")
_define("elementwise_min", torch.minimum, "The smaller of X and Y.", "X Y")
_define("elementwise_mod", torch.remainder, "Remainder of X / Y, with the sign of Y.", "")
_define("elementwise_floordiv", torch.floor_divide, "X / Y rounded down.", "")


def _define_extreme_gradient(name: str, beyond: Comparison, reaching: Comparison) -> None:
    def body(
        X: Tensor,
        Y: Tensor,
        d_Out: Tensor,
        *,
        axis: int = -1,
        need: Sequence[bool] = (True, True),
    ) -> tuple[Tensor | None, Tensor | None]:
        y = align(X, Y, axis).expand_as(d_Out)
        x = X.expand_as(d_Out)
        share = indicator(beyond, x, y).add_(indicator(reaching, x, y)).mul_(0.5)
        d_X = unbroadcast(d_Out * share, X, -1) if need[0] else None
        if not need[1]:
            return d_X, None
        return d_X, unbroadcast(share.neg_().add_(1.0).mul_(d_Out), Y, axis)

    body.__name__ = f"{name}_grad"
    body.__doc__ = "d_Out for the one that was chosen; half of it for each where they are equal."
    gradient(name)(body)


_define_extreme_gradient("elementwise_max", torch.gt, torch.ge)
_define_extreme_gradient("elementwise_min", torch.lt, torch.le)


@gradient("elementwise_div")
def elementwise_div_grad(
    X: Tensor,
    Y: Tensor,
    Out: Tensor,
    d_Out: Tensor,
    *,
    axis: int = -1,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None]:
    """d_X = d_Out / Y, d_Y = -d_Out * Out / Y summed over what was broadcast."""
    d_X = d_Out / align(Out, Y, axis)
    return d_X if need[0] else None, unbroadcast(-d_X * Out, Y, axis) if need[1] else None
