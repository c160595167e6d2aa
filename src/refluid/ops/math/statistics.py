"""Order statistics and counts that Paddle 2 has beside Fluid's."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ops.reading import unknown
from refluid.ops.registry import operator
from refluid.ops.required import require_axis


def _shaped(out: Tensor) -> Tensor:
    return out if out.dim() else out.reshape(1)


@operator("top_k_v2", outputs="Out Indices", uses="X", differentiable="X")
def top_k_v2(
    X: Tensor,
    K: Tensor | None = None,
    *,
    k: int = 1,
    axis: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along `axis`, and their int64 positions."""
    require_axis(X, axis)
    count = k if K is None else int(K.flatten()[0])
    values, indices = torch.topk(X, count, axis, largest, sorted)
    return values, indices


@operator("kthvalue", outputs="Out Indices", uses="X", differentiable="X")
def kthvalue(
    X: Tensor, *, k: int = 1, axis: int = -1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along `axis`, and its int64 position."""
    values, indices = torch.topk(X, k, axis, largest=False, sorted=True)
    value, index = values.narrow(axis, k - 1, 1), indices.narrow(axis, k - 1, 1)
    if keepdim:
        return value.contiguous(), index.contiguous()
    return _shaped(value.squeeze(axis)), _shaped(index.squeeze(axis))


@operator("median", outputs="Out", uses="X", amp="keep")
def median(X: Tensor, *, axis: int = 0, keepdim: bool = False) -> Tensor:
    """The median along `axis`; of an even number the mean of the two in the middle."""
    count = X.shape[axis]
    least = torch.topk(X, count // 2 + 1, axis, largest=False, sorted=True)[0]
    upper = least.narrow(axis, count // 2, 1)
    middle = upper if count % 2 else (least.narrow(axis, count // 2 - 1, 1) + upper) / 2
    gone = X.isnan().any(axis, keepdim=True)
    out = torch.where(gone, torch.full_like(middle, torch.nan), middle)
    return out if keepdim else _shaped(out.squeeze(axis))


@operator("histogram", outputs="Out", uses=None, lod="")
def histogram(X: Tensor, *, bins: int = 100, min: int = 0, max: int = 0) -> Tensor:
    """How many elements lie in each of `bins` equal parts of [min, max], int64 (bins,)."""
    if X.is_meta:
        return X.new_empty(bins, dtype=torch.int64)
    return torch.histc(X.reshape(-1).double(), bins, min, max).to(torch.int64)


@operator("bincount", outputs="Out", uses=None, lod="")
def bincount(X: Tensor, Weights: Tensor | None = None, *, minlength: int = 0) -> Tensor:
    """How often each number from 0 up occurs in X (N,), or the sum of its weights."""
    if X.is_meta:
        kind = torch.int64 if Weights is None else Weights.dtype
        return X.new_empty(unknown(), dtype=kind)
    out = torch.bincount(X, Weights, minlength)
    return out if Weights is None else out.to(Weights.dtype)


@operator("searchsorted", outputs="Out", uses=None, lod="")
def searchsorted(
    SortedSequence: Tensor, Values: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Where each of Values would be put into the sorted sequence of its row."""
    return torch.searchsorted(
        SortedSequence.contiguous(), Values.contiguous(), out_int32=out_int32, right=right
    )
