"""Activations that know channels, and choices between whole tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ops.infer import infer_like
from refluid.ops.registry import operator


def _slopes(X: Tensor, Alpha: Tensor, mode: str) -> Tensor:
    """Alpha so that it broadcasts onto X."""
    shapes = {
        "all": (1,) * X.dim(),
        "channel": (1, -1, *(1,) * (X.dim() - 2)),
        "element": (1, *X.shape[1:]),
    }
    return Alpha.reshape(shapes[mode])


@operator("prelu", outputs="Out", uses="X Alpha")
def prelu(X: Tensor, Alpha: Tensor, *, mode: str = "all") -> Tensor:
    """X where it is positive, else Alpha * X.

    mode: one Alpha for `all`, one for each `channel` (dimension 1) or each `element` of a sample.
    """
    return torch.where(X > 0, X, X * _slopes(X, Alpha, mode))


@operator("maxout", outputs="Out")
def maxout(X: Tensor, *, groups: int, axis: int = 1) -> Tensor:
    """The largest of each `groups` neighbouring channels, which are dimension `axis`."""
    place = axis % X.dim()
    shape = (*X.shape[:place], X.shape[place] // groups, groups, *X.shape[place + 1 :])
    return X.reshape(shape).amax(place + 1)


@operator(
    "multiplex", outputs="Out", uses="Ids", differentiable="X", infer=infer_like("Out", "X")
)
def multiplex(X: list[Tensor], Ids: Tensor) -> Tensor:
    """Row i of Out is row i of X[Ids[i]]; Ids is int32 (rows, 1)."""
    rows = torch.arange(X[0].shape[0], device=X[0].device)
    return torch.stack(X)[Ids.reshape(-1).long(), rows]
