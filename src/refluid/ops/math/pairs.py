"""Functions of two variables that Paddle 2 has beside Fluid's; both broadcast from the last."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from refluid.ops.registry import operator

_TABLE: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str, str | None]] = {
    "atan2": (torch.atan2, "The angle of the point (Y, X).", "X Y"),
    "bitwise_and": (torch.bitwise_and, "Bits that both have.", None),
    "bitwise_or": (torch.bitwise_or, "Bits that one has.", None),
    "bitwise_xor": (torch.bitwise_xor, "Bits that only one has.", None),
    "elementwise_fmax": (torch.fmax, "The greater, or the one that is a number.", "X Y"),
    "elementwise_fmin": (torch.fmin, "The smaller, or the one that is a number.", "X Y"),
    "elementwise_heaviside": (torch.heaviside, "0 where X < 0, 1 where X > 0, else Y.", None),
    "floor_divide": (torch.floor_divide, "The greatest whole number not above X / Y.", None),
    "gcd": (torch.gcd, "Greatest common divisor.", None),
    "lcm": (torch.lcm, "Least common multiple.", None),
    "logaddexp": (torch.logaddexp, "log(exp(X) + exp(Y)).", "X Y"),
    "remainder": (torch.remainder, "X - floor(X / Y) * Y.", "X Y"),
}


def _define(
    name: str, compute: Callable[[Tensor, Tensor], Tensor], doc: str, uses: str | None
) -> None:
    def body(X: Tensor, Y: Tensor) -> Tensor:
        return compute(X, Y)

    body.__name__, body.__doc__ = name, doc
    operator(name, outputs="Out", uses=uses)(body)


for _name, (_compute, _doc, _uses) in _TABLE.items():
    _define(_name, _compute, _doc, _uses)


@operator("lerp", outputs="Out", uses="X Y Weight")
def lerp(X: Tensor, Y: Tensor, Weight: Tensor) -> Tensor:
    """X + Weight * (Y - X)."""
    return X + Weight * (Y - X)


@operator("fill_where", outputs="Out", uses="X Mask", differentiable="X")
def fill_where(X: Tensor, Mask: Tensor, *, value: float) -> Tensor:
    """`value` where Mask holds, else X."""
    return torch.where(Mask, torch.full((), value, dtype=X.dtype, device=X.device), X)
