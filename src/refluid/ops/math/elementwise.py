"""Binary operators: the one of lower rank is broadcast onto the other from dimension `axis`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import gt
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.extras import ELEMENTWISE
from refluid.ops.indicating import indicator
from refluid.ops.math.broadcasting import (
    conjugate,
    infer_broadcast,
    unbroadcast_both,
)
from refluid.ops.registry import gradient, in_place, operator
from refluid.ops.sparse.sparse import keeps_rows

Comparison = Callable[..., Tensor]
_HALF = {torch.float16, torch.bfloat16}
OperandPair = Callable[[Tensor, Tensor], Tensor]
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


def align_both(X: Tensor, Y: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """X and Y, dimensions added to the one of lower rank so that they broadcast.

    They have to be of one element type; half precision goes with float32.
    """
    if X.shape == Y.shape and X.dtype is Y.dtype:
        return X, Y
    if X.dtype != Y.dtype and not {X.dtype, Y.dtype} & _HALF:
        raise EnforceNotMet(
            f"Tensor holds the wrong type, it holds {Y.dtype}, but desires to be {X.dtype}: X and "
            "Y have to be of one type; cast one of them"
        )
    return (align(Y, X, axis), Y) if X.dim() < Y.dim() else (X, align(X, Y, axis))


def _over_x(X: Tensor, Y: Tensor, axis: int, over: OperandPair, apart: OperandPair) -> Tensor:
    """The result over X, by the one, where it is of X's shape and type; else by the other."""
    if X.shape == Y.shape and X.dtype is Y.dtype:
        return over(X, Y)
    x, y = align_both(X, Y, axis)
    grows = y.dim() > X.dim() or any(map(gt, y.shape[::-1], X.shape[::-1]))
    return apart(x, y) if grows or X.dtype != y.dtype else over(X, y)


@operator(
    "elementwise_add",
    outputs="Out",
    uses="X Y",
    stacked="beside Y",
    recomputable="X Y",
    **_FLAGS,
    by_autograd="always",
)
def elementwise_add(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
    """X + Y."""
    x, y = align_both(X, Y, axis)
    return x + y


@in_place("elementwise_add", "X")
def elementwise_add_(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
    """`elementwise_add` over X, where the result is of X's shape and type."""
    return _over_x(X, Y, axis, Tensor.add_, torch.add)


@in_place("elementwise_add", "Y")
def elementwise_add_over_y(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
    """`elementwise_add` over Y, where the result is of Y's shape and type."""
    if X.shape == Y.shape and X.dtype == Y.dtype:
        return Y.add_(X)
    x, y = align_both(X, Y, axis)
    return x + y


@gradient("elementwise_add", views={"d_X": "d_Out", "d_Y": "d_Out"}, shape_only="X Y")
def elementwise_add_grad(
    X: Tensor,
    Y: Tensor,
    d_Out: Tensor,
    *,
    axis: int = -1,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None]:
    """d_X = d_Out, d_Y = d_Out summed over what was broadcast."""
    d_x, d_y = d_Out if need[0] else None, d_Out if need[1] else None
    return unbroadcast_both(X, Y, d_x, d_y, axis)


@operator(
    "elementwise_sub", outputs="Out", uses="X Y", stacked="beside Y", **_FLAGS, by_autograd="always"
)
def elementwise_sub(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
    """X - Y."""
    x, y = align_both(X, Y, axis)
    return x - y


@gradient("elementwise_sub", views={"d_X": "d_Out"}, shape_only="X Y")
def elementwise_sub_grad(
    X: Tensor,
    Y: Tensor,
    d_Out: Tensor,
    *,
    axis: int = -1,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None]:
    """d_X = d_Out, d_Y = -d_Out summed over what was broadcast."""
    d_x, d_y = d_Out if need[0] else None, d_Out if need[1] else None
    d_X, d_Y = unbroadcast_both(X, Y, d_x, d_y, axis)
    return d_X, None if d_Y is None else -d_Y


def _rows_by_number(op: Operator) -> dict[str, str]:
    """Rows times one number are rows."""
    (factor,) = map(op.block.find_var_recursive, op.input("Y"))
    return {"X": "Out"} if factor is not None and tuple(factor.shape) == (1,) else {}


@operator(
    "elementwise_mul",
    outputs="Out",
    uses="X Y",
    stacked="beside Y",
    **_FLAGS,
    by_autograd="always",
    rows_suffice=_rows_by_number,
)
@keeps_rows()
def elementwise_mul(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
    """X * Y."""
    x, y = align_both(X, Y, axis)
    return x * y


@in_place("elementwise_mul", "X")
@keeps_rows()
def elementwise_mul_(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
    """`elementwise_mul` over X, where the result is of X's shape and type."""
    return _over_x(X, Y, axis, Tensor.mul_, torch.mul)


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
    x, y = map(conjugate, align_both(X, Y, axis))
    d_x, d_y = d_Out * y if need[0] else None, d_Out * x if need[1] else None
    return unbroadcast_both(X, Y, d_x, d_y, axis)


def _define(
    name: str,
    compute: OperandPair,
    doc: str,
    uses: str,
    *,
    exchanges: bool = False,
    by_autograd: str = "",
) -> None:
    """exchanges: the one of lower rank is always the second operand, as Fluid has it."""

    def body(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
        x, y = align_both(X, Y, axis)
        return compute(y, x) if exchanges and X.dim() < Y.dim() else compute(x, y)

    more = " With an X of lower rank, X and Y are exchanged." if exchanges else ""
    body.__name__, body.__doc__ = name, doc + more
    flags = _FLAGS | {"by_autograd": by_autograd}
    operator(name, outputs="Out", uses=uses or None, **flags)(body)


def _divide(x: Tensor, y: Tensor) -> Tensor:
    whole = not (x.is_floating_point() or x.is_complex())
    return torch.div(x, y, rounding_mode="trunc") if whole else x / y


def _remainder(x: Tensor, y: Tensor) -> Tensor:
    return torch.remainder(x, y) if x.is_floating_point() else torch.fmod(x, y)


_define(
    "elementwise_div",
    _divide,
    "X / Y; integers are cut towards zero.",
    "X Y Out",
    by_autograd="always",
)
_define("elementwise_max", torch.maximum, "The larger of X and Y.", "X Y")
_define("elementwise_min", torch.minimum, "The smaller of X and Y.", "X Y")
_define("elementwise_pow", torch.pow, "X to the power of Y.", "X Y", exchanges=True)
_define(
    "elementwise_mod",
    _remainder,
    "Remainder of X / Y, with the sign of Y, of integers with that of X.",
    "",
    exchanges=True,
)
_define("elementwise_floordiv", _divide, "X / Y of integers, cut towards zero.", "", exchanges=True)


@gradient("elementwise_pow")
def elementwise_pow_grad(
    X: Tensor,
    Y: Tensor,
    d_Out: Tensor,
    *,
    axis: int = -1,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None]:
    """Those of X to the power of Y, also where the operator exchanges them."""
    x, y = align_both(X, Y, axis)
    d_x = d_Out * y * torch.pow(x, y - 1.0) if need[0] else None
    d_y = d_Out * torch.log(x) * torch.pow(x, y) if need[1] else None
    return unbroadcast_both(X, Y, d_x, d_y, axis)


def _define_extreme_gradient(name: str, beyond: Comparison) -> None:
    def body(
        X: Tensor,
        Y: Tensor,
        d_Out: Tensor,
        *,
        axis: int = -1,
        need: Sequence[bool] = (True, True),
    ) -> tuple[Tensor | None, Tensor | None]:
        x, y = (one.expand_as(d_Out) for one in align_both(X, Y, axis))
        share = indicator(beyond, x, y)
        d_x = d_Out * share if need[0] else None
        if need[1] and torch.is_grad_enabled():  # to be differentiated itself
            d_y: Tensor | None = d_Out * (1.0 - share)
        else:
            d_y = share.neg_().add_(1.0).mul_(d_Out) if need[1] else None
        return unbroadcast_both(X, Y, d_x, d_y, axis)

    body.__name__ = f"{name}_grad"
    body.__doc__ = "d_Out for the one that was chosen; for Y where they are equal."
    gradient(name)(body)


_define_extreme_gradient("elementwise_max", torch.gt)
_define_extreme_gradient("elementwise_min", torch.lt)


@gradient("elementwise_div", shape_only="X")
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
    d_x = d_Out / conjugate(align_both(X, Y, axis)[1])
    d_y = -d_x * conjugate(Out) if need[1] else None
    return unbroadcast_both(X, Y, d_x if need[0] else None, d_y, axis)
