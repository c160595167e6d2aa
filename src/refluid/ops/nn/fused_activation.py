"""fused_elemwise_activation: a binary operator and a function of one variable in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.kernels.epilogues import activate_, add_relu, deactivate, deactivate_
from refluid.ops.math.elementwise import align, elementwise_add_grad
from refluid.ops.registry import gradient, in_place, operator

_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "elementwise_add": torch.add,
    "elementwise_mul": torch.mul,
    "elementwise_sub": torch.sub,
}
_UNARY: dict[str, Callable[[Tensor, float], Tensor]] = {
    "scale": lambda x, factor: x * factor,
    "relu": lambda x, _: torch.relu(x),
    "tanh": lambda x, _: torch.tanh(x),
    "sigmoid": lambda x, _: torch.sigmoid(x),
    "gelu": lambda x, _: F.gelu(x),
}
_TOLD_BY_RESULT = ("relu", "tanh", "sigmoid")


def _adds_first(functors: Sequence[str]) -> bool:
    """Whether it is an activation of a sum, whose gradient the result tells."""
    return functors[0] in _TOLD_BY_RESULT and functors[1] == "elementwise_add"


@operator(
    "fused_elemwise_activation",
    outputs="Out IntermediateOut?",
    uses="X Y Out IntermediateOut",
    activation=True,
    made_of="elementwise_add relu tanh sigmoid",
    recomputable="X Y",
)
def fused_elemwise_activation(
    X: Tensor,
    Y: Tensor,
    *,
    functor_list: Sequence[str],
    axis: int = -1,
    scale: float = 0.0,
    save_intermediate_out: bool = False,
    counts: Sequence[int] = (1, 1),
) -> tuple[Tensor, Tensor | None]:
    """f(g(...)) for functor_list [f, g]: [binary, unary] is binary(X, unary(Y)), [unary, binary]
    is unary(binary(X, Y)).

    Binary: elementwise_add, elementwise_sub, elementwise_mul; unary: relu, scale, tanh, sigmoid,
    gelu. The shorter of X and Y is broadcast from `axis`. IntermediateOut is what g gave; where no
    variable takes it, relu(X + Y) is one pass over memory on the CPU.
    """
    outer, inner = functor_list
    if _adds_first(functor_list) and not counts[1]:
        return _activated_sum(X, Y, outer, axis), None
    if outer in _BINARY and inner in _UNARY:
        middle = _UNARY[inner](Y, scale)
        return _combined(_BINARY[outer], X, middle, axis), middle
    if outer in _UNARY and inner in _BINARY:
        middle = _combined(_BINARY[inner], X, Y, axis)
        return _UNARY[outer](middle, scale), middle
    raise EnforceNotMet(
        f"fused_elemwise_activation: {list(functor_list)} must be one of {', '.join(_BINARY)} and "
        f"one of {', '.join(_UNARY)}, in either order"
    )


@in_place("fused_elemwise_activation", "X")
def fused_elemwise_activation_(
    X: Tensor,
    Y: Tensor,
    *,
    functor_list: Sequence[str],
    axis: int = -1,
    counts: Sequence[int] = (1, 1),
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """`fused_elemwise_activation` over X, where the result is of X's shape and type."""
    y = align(X, Y, axis) if Y.dim() <= X.dim() else Y
    fits = y.dim() <= X.dim() and y.numel() <= X.numel() and X.dtype == y.dtype
    if not fits or counts[1] or not _adds_first(functor_list):
        others |= {"functor_list": functor_list, "axis": axis, "counts": counts}
        found: tuple[Tensor, Tensor | None] = fused_elemwise_activation(X, Y, **others)
        return found
    return _activated_sum_over(X, y, functor_list[0]), None


@in_place("fused_elemwise_activation", "Y")
def fused_elemwise_activation_over_y(
    X: Tensor,
    Y: Tensor,
    *,
    functor_list: Sequence[str],
    counts: Sequence[int] = (1, 1),
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """`fused_elemwise_activation` over Y, where the result is of Y's shape and type."""
    alike = X.shape == Y.shape and X.dtype == Y.dtype
    if not alike or counts[1] or not _adds_first(functor_list):
        others |= {"functor_list": functor_list, "counts": counts}
        found: tuple[Tensor, Tensor | None] = fused_elemwise_activation(X, Y, **others)
        return found
    return _activated_sum_over(Y, X, functor_list[0]), None


def _activated_sum(x: Tensor, y: Tensor, activation: str, axis: int) -> Tensor:
    if y.dim() > x.dim():
        x, y = y, x
    y = align(x, y, axis)
    return add_relu(x, y) if activation == "relu" else activate_(x + y, activation)


def _activated_sum_over(x: Tensor, y: Tensor, activation: str) -> Tensor:
    return add_relu(x, y, out=x) if activation == "relu" else activate_(x.add_(y), activation)


# Where both terms have the shape of the sum, they share one gradient.
@gradient("fused_elemwise_activation", views={"d_Y": "d_X"}, untouched="d_IntermediateOut")
def fused_elemwise_activation_grad(
    X: Tensor,
    Y: Tensor,
    Out: Tensor,
    IntermediateOut: Tensor | None,
    d_Out: Tensor,
    *,
    functor_list: Sequence[str],
    axis: int = -1,
    scale: float = 0.0,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None, None]:
    """By the result of an activated sum, otherwise by differentiating the two functions."""
    if _adds_first(functor_list):
        d_sum = deactivate(Out, d_Out, functor_list[0])
        return _parted(X, Y, d_sum, axis, need)
    x, y = X.detach().requires_grad_(), Y.detach().requires_grad_()
    with torch.enable_grad():
        out, _ = fused_elemwise_activation(x, y, functor_list=functor_list, axis=axis, scale=scale)
    d_x, d_y = torch.autograd.grad(out, (x, y), d_Out)
    return d_x, d_y, None


@in_place("fused_elemwise_activation_grad", "d_Out")
def fused_elemwise_activation_grad_(
    X: Tensor,
    Y: Tensor,
    *others: Any,
    functor_list: Sequence[str],
    axis: int = -1,
    need: Sequence[bool] = (True, True),
    **settings: Any,
) -> tuple[Tensor | None, Tensor | None, None]:
    """`fused_elemwise_activation_grad` over d_Out."""
    if not _adds_first(functor_list):
        settings |= {"functor_list": functor_list, "axis": axis}
        found: tuple[Tensor | None, Tensor | None, None]
        found = fused_elemwise_activation_grad(X, Y, *others, **settings)
        return found
    out, _, d_out = others
    return _parted(X, Y, deactivate_(out, d_out, functor_list[0]), axis, need)


def _parted(
    x: Tensor, y: Tensor, d_sum: Tensor, axis: int, need: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None, None]:
    """Gradients of the terms of a sum; the longer one is the one that axis aligns with."""
    if y.dim() > x.dim():
        d_y, d_x = elementwise_add_grad(y, x, d_sum, axis=axis, need=(need[1], need[0]))
    else:
        d_x, d_y = elementwise_add_grad(x, y, d_sum, axis=axis, need=need)
    return d_x, d_y, None


def _combined(
    function: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, axis: int
) -> Tensor:
    if y.dim() > x.dim():
        return function(align(y, x, axis), y)
    return function(x, align(x, y, axis))
