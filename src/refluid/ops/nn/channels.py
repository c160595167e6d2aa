"""Activations that know channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import at_least, one_of
from refluid.ops.bounded import Images
from refluid.ops.indicating import indicator
from refluid.ops.registry import gradient, operator

Mode = Annotated[str, one_of("all", "channel", "element")]


def _slopes(X: Tensor, Alpha: Tensor, mode: str) -> Tensor:
    """Alpha so that it broadcasts onto X."""
    shapes = {
        "all": (1,) * X.dim(),
        "channel": (1, -1, *(1,) * (X.dim() - 2)),
        "element": (1, *X.shape[1:]),
    }
    return Alpha.reshape(shapes[mode])


@operator("prelu", outputs="Out", uses="X Alpha")
def prelu(X: Tensor, Alpha: Tensor, *, mode: Mode = "all") -> Tensor:
    """X where it is positive, else Alpha * X.

    mode: one Alpha for `all`, one for each `channel` (dimension 1) or each `element` of a sample.
    """
    wanted = {"all": 1, "channel": X.shape[1] if X.dim() > 1 else 1}
    if Alpha.numel() != wanted.get(mode, Alpha.numel()):
        raise EnforceNotMet(
            f"Alpha has {Alpha.numel()} elements, but mode {mode!r} of X {list(X.shape)} takes "
            f"{wanted[mode]}"
        )
    if mode != "element" and X.dim() > 1:
        return torch.prelu(X, Alpha.reshape(-1))
    return X.clamp(min=0.0).addcmul_(X.clamp(max=0.0), _slopes(X, Alpha, mode))


@gradient("prelu")
def prelu_grad(
    X: Tensor,
    Alpha: Tensor,
    d_Out: Tensor,
    *,
    mode: str = "all",
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None]:
    """d_Out where X is positive, else Alpha * d_Out; d_Alpha sums d_Out * X where it is not."""
    slopes = _slopes(X, Alpha, mode)
    d_x = d_alpha = None
    if need[0]:
        positive = indicator(torch.gt, X, 0.0)
        d_x = torch.lerp(slopes.expand_as(X), torch.ones_like(slopes), positive).mul_(d_Out)
    if need[1]:
        over = [place for place, size in enumerate(slopes.shape) if size == 1]
        each = X.clamp(max=0.0).mul_(d_Out)
        d_alpha = (each.sum(over, keepdim=True) if over else each).reshape(Alpha.shape)
    return d_x, d_alpha


@operator("maxout", outputs="Out", lod="")
def maxout(
    X: Images, *, groups: Annotated[int, at_least(2)], axis: Annotated[int, one_of(1, -1, 3)] = 1
) -> Tensor:
    """The largest of each `groups` neighbouring channels, which are dimension `axis`.

    Of equal ones the first has the gradient.
    """
    place = axis % X.dim()
    if X.shape[place] % groups:
        raise EnforceNotMet(f"groups {groups} has to divide dimension {axis} of X {list(X.shape)}")
    shape = (*X.shape[:place], X.shape[place] // groups, groups, *X.shape[place + 1 :])
    return X.reshape(shape).amax(place + 1)


@gradient("maxout")
def maxout_grad(X: Tensor, Out: Tensor, d_Out: Tensor, *, groups: int, axis: int = 1) -> Tensor:
    """d_Out at the first channel of a group that is its largest."""
    place = axis % X.dim()
    shape = (*X.shape[:place], X.shape[place] // groups, groups, *X.shape[place + 1 :])
    made, left = torch.empty(shape, dtype=X.dtype, device=X.device), d_Out
    parts = zip(X.reshape(shape).unbind(place + 1), made.unbind(place + 1), strict=True)
    for part, grad in parts:
        torch.eq(part, Out, out=grad)
        grad.mul_(left)
        left = left - grad
    return made.view_as(X)
