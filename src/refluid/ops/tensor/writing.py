"""Elements written to and read from places of a tensor, as Paddle 2 has it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.ops.registry import operator


@operator("index_put", outputs="Out", uses="X Indices Value", differentiable="X Value", lod="")
def index_put(
    X: Tensor, Indices: list[Tensor], Value: Tensor, *, accumulate: bool = False
) -> Tensor:
    """X with Value, or it added, at Indices: whole numbers or truths for each dimension."""
    return torch.index_put(X, (*Indices,), Value, accumulate)


@operator("select_scatter", outputs="Out", uses="X Value", lod="")
def select_scatter(X: Tensor, Value: Tensor, *, axis: int, index: int) -> Tensor:
    """X with Value at one place along a dimension."""
    return torch.select_scatter(X, Value, axis, index)


@operator("diagonal_scatter", outputs="Out", uses="X Value", lod="")
def diagonal_scatter(
    X: Tensor, Value: Tensor, *, offset: int = 0, axis1: int = 0, axis2: int = 1
) -> Tensor:
    """X with Value on a diagonal."""
    return torch.diagonal_scatter(X, Value, offset, axis1, axis2)


@operator("tensor_unfold", outputs="Out", uses="X", lod="")
def tensor_unfold(X: Tensor, *, axis: int, size: int, step: int) -> Tensor:
    """Windows along a dimension, as another dimension at the end."""
    return X.unfold(axis, size, step).clone()


@operator("as_strided", outputs="Out", uses="X", lod="")
def as_strided(X: Tensor, *, dims: Sequence[int], stride: Sequence[int], offset: int = 0) -> Tensor:
    """Elements of X's memory, by strides in elements."""
    return torch.as_strided(X.contiguous(), list(dims), list(stride), offset).clone()


@operator("renorm", outputs="Out", uses="X", lod="")
def renorm(X: Tensor, *, p: float, axis: int, max_norm: float) -> Tensor:
    """X with each part along a dimension scaled to a p-norm of at most max_norm."""
    return torch.renorm(X, p, axis, max_norm)


@operator("quantile", outputs="Out", uses="X", lod="", amp="keep")
def quantile(
    X: Tensor,
    *,
    q: Sequence[float],
    axis: Sequence[int],
    keepdim: bool = False,
    ignore_nan: bool = False,
    several: bool = False,
) -> Tensor:
    """Quantiles along dimensions (all without any), between neighbours by their distance.

    several: one dimension in front, for q.
    """
    rank, kept = X.dim(), [one % X.dim() for one in axis] or list(range(X.dim()))
    rest = [one for one in range(rank) if one not in kept]
    flat = X.permute(*rest, *kept).flatten(len(rest)).double()
    wanted = torch.tensor(list(q), dtype=torch.float64, device=X.device)
    function = torch.nanquantile if ignore_nan else torch.quantile
    out = function(flat, wanted, -1)
    if keepdim:
        out = out.reshape(-1, *(1 if n in kept else size for n, size in enumerate(X.shape)))
    out = out if several else out[0]
    return out if out.dim() else out.reshape(1)


@operator("mode", outputs="Out Indices", uses="X Indices", differentiable="X", lod="")
def mode(X: Tensor, *, axis: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent element along a dimension, the least of several, and where it is last."""
    found = torch.mode(X, axis, True)
    same = found.values == X
    last = X.shape[axis] - 1 - same.flip(axis).to(torch.uint8).argmax(axis, keepdim=True)
    values, places = X.gather(axis, last), last
    if not keepdim and X.dim() > 1:
        values, places = values.squeeze(axis), places.squeeze(axis)
    return values, places


@operator("polygamma", outputs="Out", uses="X", amp="keep")
def polygamma(X: Tensor, *, n: int) -> Tensor:
    """The n-th derivative of the digamma function."""
    return torch.polygamma(n, X)


@operator("nextafter", outputs="Out", uses=None)
def nextafter(X: Tensor, Y: Tensor) -> Tensor:
    """The next number after X towards Y."""
    return torch.nextafter(X, Y)


@operator("frexp", outputs="Mantissa Exponent", uses=None)
def frexp(X: Tensor) -> tuple[Tensor, Tensor]:
    """X as Mantissa * 2 ** Exponent, the mantissa between 0.5 and 1."""
    mantissa, exponent = torch.frexp(X)
    return mantissa, exponent.to(X.dtype)
