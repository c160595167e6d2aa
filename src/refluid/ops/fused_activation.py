"""fused_elemwise_activation: a binary operator and a function of one variable in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.schema import Slot
from refluid.ops.elementwise import align
from refluid.ops.registry import find, gradient, operator
from refluid.ops.signature import GRAD

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


@operator(
    "fused_elemwise_activation", outputs="Out IntermediateOut", uses="X Y Out IntermediateOut"
)
def fused_elemwise_activation(
    X: Tensor,
    Y: Tensor,
    *,
    functor_list: Sequence[str],
    axis: int = -1,
    scale: float = 0.0,
    save_intermediate_out: bool = False,
) -> tuple[Tensor, Tensor]:
    """f(g(...)) for functor_list [f, g]: [binary, unary] is binary(X, unary(Y)), [unary, binary]
    is unary(binary(X, Y)).

    Binary: elementwise_add, elementwise_sub, elementwise_mul; unary: relu, scale, tanh, sigmoid,
    gelu. The shorter of X and Y is broadcast from `axis`. IntermediateOut is what g gave.
    """
    outer, inner = functor_list
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


@gradient("fused_elemwise_activation")
def fused_elemwise_activation_grad(
    X: Tensor,
    Y: Tensor,
    Out: Tensor,
    IntermediateOut: Tensor,
    d_Out: Tensor,
    *,
    functor_list: Sequence[str],
    axis: int = -1,
    scale: float = 0.0,
) -> tuple[Tensor, Tensor, None]:
    """By differentiating the two functions."""
    x, y = X.detach().requires_grad_(), Y.detach().requires_grad_()
    with torch.enable_grad():
        out, _ = fused_elemwise_activation(x, y, functor_list=functor_list, axis=axis, scale=scale)
    d_x, d_y = torch.autograd.grad(out, (x, y), d_Out)
    return d_x, d_y, None


_backward = find("fused_elemwise_activation_grad")
assert _backward is not None
_backward.outputs += (Slot("IntermediateOut" + GRAD, optional=True),)
_backward.untouched = frozenset({"IntermediateOut" + GRAD})


def _combined(
    function: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, axis: int
) -> Tensor:
    if y.dim() > x.dim():
        return function(align(y, x, axis), y)
    return function(x, align(x, y, axis))
