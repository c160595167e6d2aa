"""Exchanges of Python objects, pickled as by Paddle: processes of one job trust each other."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.paddle.distributed.ends import member, own_end
from refluid.paddle.distributed.groups import Group

__all__ = ["all_gather_object", "broadcast_object_list", "scatter_object_list"]


def all_gather_object(object_list: list[Any], obj: Any, group: Group | None = None) -> None:
    """Appends the object of each process of the group to `object_list`, by rank."""
    comm = own_end(group)
    if comm is not None:
        found = comm.all_gather(_packed(obj))
        object_list.extend(_unpacked(one) for one in found if isinstance(one, Tensor))


def broadcast_object_list(object_list: list[Any], src: int, group: Group | None = None) -> None:
    """Overwrites the objects of a list with those of the job's process `src`.

    ValueError where that has another number of them.
    """
    comm = own_end(group)
    if comm is None:
        return
    root = member(group, src)
    own = _packed(object_list) if comm.rank == root else _NOTHING
    sent = comm.all_to_all([own] * comm.size)[root]
    if comm.rank != root:
        found = _unpacked(sent)
        if len(found) != len(object_list):
            raise ValueError(
                f"process {src} sends {len(found)} objects, for which there are "
                f"{len(object_list)} places"
            )
        object_list[:] = found


def scatter_object_list(
    out_object_list: list[Any],
    in_object_list: Sequence[Any] | None = None,
    src: int = 0,
    group: Group | None = None,
) -> None:
    """Makes the object for this process, of those of the job's process `src`, that of the list.

    ValueError where `src` hasn't one for each.
    """
    comm = own_end(group)
    if comm is None:
        return
    root, given = member(group, src), [_NOTHING] * comm.size
    if comm.rank == root:
        objects = list(in_object_list or ())
        if len(objects) != comm.size:
            raise ValueError(
                f"scatter_object_list to {comm.size} processes takes as many, not {len(objects)}"
            )
        given = [_packed(one) for one in objects]
    out_object_list[:] = [_unpacked(comm.all_to_all(given)[root])]


_NOTHING = torch.empty(0, dtype=torch.uint8)


def _packed(value: Any) -> Tensor:
    return torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)


def _unpacked(data: Tensor) -> Any:
    return pickle.loads(data.numpy().tobytes())
