"""Replicas in threads of one process, which exchange tensors by reading each other's memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.comm.member import Exchanged, Member
from refluid.core.errors import EnforceNotMet, PeerFailed
from refluid.core.selected_rows import SelectedRows

_REDUCE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": Tensor.add_,
    "prod": Tensor.mul_,
    "max": lambda total, other: torch.maximum(total, other, out=total),
    "min": lambda total, other: torch.minimum(total, other, out=total),
}
# Tensors of at least that many elements are reduced in parts, one by each replica.
_SHARED = 1 << 14


class LocalGroup:
    """`size` members that meet. Sums are taken in the order of ranks: all get the same bits.

    When one fails, `abort` makes all others that wait raise PeerFailed.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size)
        self.slots: list[Any] = [None] * size

    def member(self, rank: int) -> Member:
        """The end of replica `rank`."""
        return _LocalMember(self, rank)

    def abort(self) -> None:
        """Wakes all that wait; the group can be used again after `reset`."""
        self.barrier.abort()

    def reset(self) -> None:
        """Makes the group usable after `abort`, once no member is inside."""
        self.barrier.reset()
        self.slots = [None] * self.size


class _LocalMember:
    def __init__(self, group: LocalGroup, rank: int) -> None:
        self.group, self.rank, self.size = group, rank, group.size

    def barrier(self) -> None:
        try:
            self.group.barrier.wait()
        except threading.BrokenBarrierError as broken:
            raise PeerFailed("another replica failed while this one waited for it") from broken

    def _exchange(self, value: Any) -> list[Any]:
        """What each member brought; all must call `barrier` when done with it."""
        self.group.slots[self.rank] = value
        self.barrier()
        return self.group.slots

    def all_reduce(self, tensors: Sequence[Tensor], reduction: str = "sum") -> None:
        everyone = self._exchange(tensors)
        error = None
        try:
            for number, mine in enumerate(tensors):
                copies = [theirs[number] for theirs in everyone]
                if any(copy.shape != mine.shape for copy in copies):
                    error = [tuple(copy.shape) for copy in copies]
                    break
                if mine.numel() < _SHARED:
                    if number % self.size == self.rank:
                        _reduce(copies, reduction, mine)
                else:
                    _reduce([_part(copy, self.rank, self.size) for copy in copies], reduction, mine)
        finally:
            self.barrier()
        if error:
            raise EnforceNotMet(f"replicas can't reduce tensors of different shapes: {error}")

    def all_gather(self, value: Exchanged) -> list[Exchanged]:
        device = _device(value)
        found = [_near(one, device) for one in self._exchange(value)]
        self.barrier()
        return found

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        everyone = self._exchange(tensors)
        if self.rank != root:
            for mine, theirs in zip(tensors, everyone[root], strict=True):
                mine.copy_(theirs)
        self.barrier()


def _device(value: Exchanged) -> torch.device:
    return value.device if isinstance(value, Tensor) else value.value.device


def _near(value: Exchanged, device: torch.device) -> Exchanged:
    """The value on that device; itself where it is there."""
    if _device(value) == device:
        return value
    if isinstance(value, Tensor):
        return value.to(device)
    return SelectedRows(value.index.to(device), value.height(), value.value.to(device))


def _part(tensor: Tensor, rank: int, size: int) -> Tensor:
    """The part of a tensor's memory that replica `rank` reduces."""
    flat = tensor if tensor.dim() == 1 else _flat(tensor)
    step = -(-flat.numel() // size)
    return flat[rank * step : (rank + 1) * step]


def _flat(tensor: Tensor) -> Tensor:
    """All elements in the order in which they lie in memory."""
    if tensor.is_contiguous():
        return tensor.view(-1)
    return torch.as_strided(tensor, (tensor.numel(),), (1,))


def _reduce(copies: Sequence[Tensor], reduction: str, near: Tensor) -> None:
    """Reduces copies in place; where they are on several devices, on that of `near`."""
    spread = any(copy.device != copies[0].device for copy in copies)
    total = copies[0].to(near.device, copy=True) if spread else copies[0]
    for other in copies[1:]:
        _REDUCE[reduction](total, other.to(total.device))
    for copy in copies:
        if copy is not total:
            copy.copy_(total)
