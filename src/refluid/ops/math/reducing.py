"""Reductions along dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.indicating import indicator
from refluid.ops.registry import gradient, operator

Dims = tuple[int, ...]
_BY_AUTOGRAD = ("reduce_sum", "reduce_mean")


def _dims(X: Tensor, dim: Sequence[int], reduce_all: bool) -> Dims:
    """The dimensions to reduce, from 0; that none is named twice is checked at run time."""
    if reduce_all or len(dim) == X.dim():
        return tuple(range(X.dim()))
    rank = X.dim()
    if not all(-rank <= place < rank for place in dim):
        raise EnforceNotMet(f"dim is {list(dim)} but X, {list(X.shape)}, has {rank} dimensions")
    dims = tuple(dict.fromkeys(place % rank for place in dim))
    if len(dims) < len(dim) and not X.is_meta:
        raise EnforceNotMet(f"dim is {list(dim)}: it names a dimension of {list(X.shape)} twice")
    return dims


def _shaped(out: Tensor) -> Tensor:
    return out if out.dim() else out.reshape(1)


def _spread(value: Tensor, X: Tensor, dim: Sequence[int], reduce_all: bool) -> Tensor:
    """What was reduced from X, with its dimensions put back, so that it broadcasts onto X."""
    dims = _dims(X, dim, reduce_all)
    sizes = [1 if place in dims else size for place, size in enumerate(X.shape)]
    return value.reshape(sizes)


def _product(X: Tensor, dims: Dims, keep: bool) -> Tensor:
    for place in sorted(dims, reverse=True):
        X = X.prod(place, keepdim=keep, dtype=X.dtype)
    return X


def _mean(X: Tensor, dims: Dims, keep: bool) -> Tensor:
    """The mean; of integers cut towards zero."""
    if X.is_floating_point() or X.is_complex():
        return X.mean(dims, keep)
    total = X.sum(dims, keep, dtype=X.dtype)
    return torch.div(total, X.numel() // max(total.numel(), 1), rounding_mode="trunc")


ReducingKernel = Callable[[Tensor, Dims, bool], Tensor]
_TABLE: dict[str, tuple[ReducingKernel, str, str | None]] = {
    "reduce_sum": (lambda x, d, k: x.sum(d, k, dtype=x.dtype), "Sum", "X"),
    "reduce_mean": (_mean, "Mean", "X"),
    "reduce_max": (lambda x, d, k: x.amax(d, k), "Maximum", "X Out"),
    "reduce_min": (lambda x, d, k: x.amin(d, k), "Minimum", "X Out"),
    "reduce_prod": (_product, "Product", "X Out"),
    "frobenius_norm": (lambda x, d, k: x.square().sum(d, k).sqrt(), "Euclidean norm", "X Out"),
    "reduce_all": (lambda x, d, k: torch.all(x, d, k), "Logical and", None),
    "reduce_any": (lambda x, d, k: torch.any(x, d, k), "Logical or", None),
}


def _lod(op: Operator) -> str:
    """Rows stay rows unless dimension 0 is reduced."""
    first = (op.attrs.get("dim") or [0])[0]
    return "" if first == 0 or op.attrs.get("reduce_all") else "X"


def _define(name: str, reduce: ReducingKernel, what: str, uses: str | None) -> None:
    def body(
        X: Tensor,
        *,
        dim: Sequence[int] = (0,),
        keep_dim: bool = False,
        reduce_all: bool = False,
        in_dtype: int = -1,
        out_dtype: int = -1,
    ) -> Tensor:
        out = _shaped(reduce(X, _dims(X, dim, reduce_all), keep_dim))
        return out if out_dtype < 0 else out.to(to_torch(VarType(out_dtype)))

    body.__name__ = name
    body.__doc__ = f"{what} of X along the dimensions `dim`, or of all of X with reduce_all."
    flags: dict[str, Any] = {
        "amp": "keep",
        "lod": _lod,
        "by_autograd": "always" if name in _BY_AUTOGRAD else "",
    }
    operator(name, outputs="Out", uses=uses, **flags)(body)


for _name, _row in _TABLE.items():
    _define(_name, *_row)


@gradient("reduce_sum")
def reduce_sum_grad(
    X: Tensor, d_Out: Tensor, *, dim: Sequence[int] = (0,), reduce_all: bool = False
) -> Tensor:
    """d_Out for every element of its sum."""
    return torch.empty_like(X).copy_(_spread(d_Out, X, dim, reduce_all))


@gradient("reduce_mean")
def reduce_mean_grad(
    X: Tensor, d_Out: Tensor, *, dim: Sequence[int] = (0,), reduce_all: bool = False
) -> Tensor:
    """d_Out divided by the number of elements that its mean was taken of, for each of them."""
    if not X.numel():
        return torch.empty_like(X)
    share = d_Out * (d_Out.numel() / X.numel())
    return torch.empty_like(X).copy_(_spread(share, X, dim, reduce_all))


@gradient("reduce_prod")
def reduce_prod_grad(
    X: Tensor, Out: Tensor, d_Out: Tensor, *, dim: Sequence[int] = (0,), reduce_all: bool = False
) -> Tensor:
    """d_Out * Out / X."""
    return _spread(d_Out * Out, X, dim, reduce_all) / X


def _extreme_grad(
    X: Tensor, Out: Tensor, d_Out: Tensor, *, dim: Sequence[int] = (0,), reduce_all: bool = False
) -> Tensor:
    """d_Out at every element that equals the extreme, 0 elsewhere."""
    extreme = indicator(torch.eq, X, _spread(Out, X, dim, reduce_all))
    return extreme.mul_(_spread(d_Out, X, dim, reduce_all))


gradient("reduce_max")(_extreme_grad)
gradient("reduce_min")(_extreme_grad)
