"""Operators of trainers that own a share each: sums go to owners, values come from them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.comm import Communicator
from refluid.comm.communicator import Work
from refluid.comm.sharded import Sharing
from refluid.core.dtypes import VarType, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.ops.infer import no_inference
from refluid.ops.registry import operator, starting


def _shared(comm: Communicator) -> Sharing:
    if not isinstance(comm, Sharing):
        raise EnforceNotMet("trainers that own shares are those of a program with sharding")
    return comm


def _reduced(
    tensors: Sequence[Tensor], comm: Communicator, owners: Sequence[int], *, wait: bool
) -> tuple[list[Tensor], Work]:
    shared = _shared(comm)
    mine = [
        torch.empty_like(one, memory_format=torch.contiguous_format)
        for one, owner in zip(tensors, owners, strict=True)
        if owner == shared.share
    ]
    taken = iter(mine)
    filled = [
        next(taken).copy_(one) if owner == shared.share else one
        for one, owner in zip(tensors, owners, strict=True)
    ]
    return mine, shared.reduce_to(filled, owners, wait)


@operator("shard_reduce", outputs="Out*?", uses=None, infer=no_inference)
def shard_reduce(X: list[Tensor], *, comm: Communicator, owners: Sequence[int]) -> list[Tensor]:
    """The sums over all trainers of those X that this one owns. owners: of each X."""
    return _reduced(X, comm, owners, wait=True)[0]


@starting("shard_reduce")
def shard_reduce_started(
    X: list[Tensor], *, comm: Communicator, owners: Sequence[int]
) -> tuple[list[Tensor], Work]:
    """The same, waited for later."""
    return _reduced(X, comm, owners, wait=False)


def _gathered(
    given: Sequence[Tensor],
    comm: Communicator,
    device: torch.device,
    owners: Sequence[int],
    sizes: Sequence[int],
    types: Sequence[int],
    *,
    wait: bool,
) -> tuple[list[Tensor], Work]:
    shared, at = _shared(comm), 0
    taken = []
    for owner, kind in zip(owners, types, strict=True):
        dims = sizes[at]
        shape = sizes[at + 1 : at + 1 + dims]
        at += 1 + dims
        if owner != shared.share:
            taken.append(torch.empty(list(shape), dtype=to_torch(VarType(kind)), device=device))
    return taken, shared.spread(given, taken, owners, wait)


@operator("shard_gather", outputs="Out*?", uses=None, infer=no_inference)
def shard_gather(
    X: list[Tensor] | None,
    *,
    comm: Communicator,
    device: torch.device,
    owners: Sequence[int],
    sizes: Sequence[int],
    types: Sequence[int],
) -> list[Tensor]:
    """What other trainers own, who give X likewise. owners, types: of all, own ones included.

    sizes: for each of all the number of its dimensions, and these.
    """
    return _gathered(X or [], comm, device, owners, sizes, types, wait=True)[0]


@starting("shard_gather")
def shard_gather_started(
    X: list[Tensor] | None,
    *,
    comm: Communicator,
    device: torch.device,
    owners: Sequence[int],
    sizes: Sequence[int],
    types: Sequence[int],
) -> tuple[list[Tensor], Work]:
    """The same, waited for later."""
    return _gathered(X or [], comm, device, owners, sizes, types, wait=False)


@operator("shard_spread", outputs="Out*", uses=None, mutates={"Out": "X"}, infer=no_inference)
def shard_spread(X: list[Tensor], *, comm: Communicator, owners: Sequence[int]) -> list[Tensor]:
    """Overwrites those X that others own with theirs. owners: of each X."""
    shared = _shared(comm)
    pairs = list(zip(X, owners, strict=True))
    given = [one for one, owner in pairs if owner == shared.share]
    taken = [one for one, owner in pairs if owner != shared.share]
    shared.spread(given, taken, owners, wait=True)
    return X
