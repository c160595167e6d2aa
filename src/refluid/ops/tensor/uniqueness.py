"""Distinct elements, in the order in which they first occur."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import rank
from refluid.ops.reading import unknown
from refluid.ops.registry import operator

Flat = Annotated[Tensor, rank(1)]


def _distinct(X: Tensor, dtype: int) -> tuple[Tensor, Tensor, Tensor]:
    """(distinct elements, for each element its place among them, how often each occurs)."""
    kind = to_torch(VarType(dtype))
    if X.is_meta:
        size = unknown()
        index = X.new_empty(X.shape, dtype=kind)
        return X.new_empty(size), index, X.new_empty(size, dtype=kind)
    flat = X.reshape(-1)
    values, place, count = torch.unique(flat, return_inverse=True, return_counts=True)
    position = torch.arange(flat.numel(), device=flat.device)
    first = torch.full_like(count, flat.numel()).scatter_reduce_(0, place, position, "amin")
    order = first.argsort()
    rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=X.device))
    return values[order], rank[place].to(kind), count[order].to(kind)


@operator("unique", outputs="Out Index", uses=None, lod="")
def unique(X: Flat, *, dtype: int) -> tuple[Tensor, Tensor]:
    """The distinct elements of X (N,), and for each element its place among them."""
    return _distinct(X, dtype)[:2]


@operator("unique_with_counts", outputs="Out Index Count", uses=None, lod="")
def unique_with_counts(X: Flat, *, dtype: int) -> tuple[Tensor, Tensor, Tensor]:
    """`unique`, and how often each distinct element occurs."""
    return _distinct(X, dtype)


@operator("shard_index", outputs="Out", uses=None)
def shard_index(
    X: Tensor, *, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1
) -> Tensor:
    """Indices of shard `shard_id` counted from its first; `ignore_value` for those of others.

    Each of the `nshards` shards has index_num / nshards indices, rounded up.
    """
    if not 0 <= shard_id < nshards:
        raise EnforceNotMet(f"shard_id is {shard_id} but there are {nshards} shards")
    if not X.is_meta and X.numel() and not (int(X.min()) >= 0 and int(X.max()) < index_num):
        raise EnforceNotMet(f"The indices have to be from 0 to below index_num, {index_num}")
    size = (index_num + nshards - 1) // nshards
    inside = torch.div(X, size, rounding_mode="floor") == shard_id
    return torch.where(inside, X % size, ignore_value)
