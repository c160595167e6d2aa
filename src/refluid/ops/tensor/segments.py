"""Rows reduced by numbers that say where each goes: segments of Paddle 2, messages in graphs."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.reading import unknown
from refluid.ops.registry import gradient, operator

_REDUCTIONS = {"sum": "sum", "mean": "mean", "min": "amin", "max": "amax"}


@operator("segment_reduce", outputs="Out", uses="X Index Out", differentiable="X", lod="")
def segment_reduce(
    X: Tensor, Index: Tensor, Like: Tensor | None = None, *, reduce: str = "sum", rows: int = 0
) -> Tensor:
    """Row n of Out is the sum, mean, min or max of those rows of X for which Index says n.

    It is 0 where none does. rows: how many Out has; 0 for as many as Like has, and without it for
    one more than the largest of Index.
    """
    if reduce not in _REDUCTIONS:
        raise EnforceNotMet(f"reduce is {reduce!r}, not one of {', '.join(_REDUCTIONS)}")
    if Index.numel() != X.shape[0]:
        raise EnforceNotMet(f"{Index.numel()} indices for {X.shape[0]} rows")
    count = rows if Like is None else Like.shape[0]
    if X.is_meta:
        return X.new_empty((count or unknown(), *X.shape[1:]))
    place = Index.reshape(-1).to(torch.int64)
    if not count and Like is None:
        count = int(place.max()) + 1 if place.numel() else 0
    if reduce == "sum":
        return X.new_zeros((count, *X.shape[1:])).index_add_(0, place, X)
    return X.new_zeros((count, *X.shape[1:])).scatter_reduce_(
        0, _spread(place, X), X, _REDUCTIONS[reduce], include_self=False
    )


@gradient("segment_reduce")
def segment_reduce_grad(
    X: Tensor, Index: Tensor, Out: Tensor, d_Out: Tensor, *, reduce: str = "sum", rows: int = 0
) -> Tensor:
    """Each row has that of its place: of a mean a share, of min and max where X is the Out there.

    All that are equal to it have the whole.
    """
    place = Index.reshape(-1).to(torch.int64)
    found = d_Out.index_select(0, place)
    if reduce == "mean":
        count = torch.bincount(place, minlength=d_Out.shape[0]).index_select(0, place)
        return found / count.to(X.dtype).reshape(-1, *[1] * (X.dim() - 1))
    if reduce == "sum":
        return found
    return found * (Out.index_select(0, place) == X)


def _spread(place: Tensor, x: Tensor) -> Tensor:
    return place.reshape(-1, *[1] * (x.dim() - 1)).expand(x.shape)
