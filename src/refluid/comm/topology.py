"""Gradients reduced in other ways: several exchanges beside each other, or host by host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from refluid.comm.around import Around
from refluid.comm.communicator import DONE, Beside, Communicator, Work
from refluid.comm.reducing import flat

# A chunk is reduced within a host while the one before is between hosts, in elements.
_CHUNK = 1 << 20


class InTurn(Around):
    """Exchanges that are waited for later go on beside each other, each by the next of several."""

    def __init__(self, members: Sequence[Communicator]) -> None:
        super().__init__(members[0])
        self._members = list(members)
        self._next = 0

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        if wait:
            return self._inner.all_reduce(tensors, reduction)
        member = self._members[self._next]
        self._next = (self._next + 1) % len(self._members)
        return member.all_reduce(tensors, reduction, wait=False)

    def close(self) -> None:
        for one in self._members:
            one.close()


class _Levels:
    """The members near this one, and (for the first of them) those that lead the other groups."""

    def __init__(self, whole: Communicator, group: int) -> None:
        near = whole.split(group)
        assert near is not None
        self.near = near
        self.leaders = whole.split(0 if near.rank == 0 else None)

    def all_reduce(self, tensors: Sequence[Tensor], reduction: str) -> None:
        """Within the group, among the leaders, and back; in chunks that overlap."""
        before: tuple[Tensor, Work] | None = None
        for chunk in _chunks(tensors):
            self.near.all_reduce([chunk], reduction)
            work = DONE
            if self.leaders is not None:
                work = self.leaders.all_reduce([chunk], reduction, wait=False)
            self._take_back(before)
            before = chunk, work
        self._take_back(before)

    def _take_back(self, begun: tuple[Tensor, Work] | None) -> None:
        if begun is not None:
            begun[1].wait()
            self.near.broadcast([begun[0]], 0)

    def close(self) -> None:
        self.near.close()
        if self.leaders is not None:
            self.leaders.close()


class Hierarchical(Around):
    """Reduces within each group first, then among the groups' first members.

    So what goes between hosts is what one member of each would send. group: the number of this
    member's group. All members get the same bits.
    """

    def __init__(self, whole: Communicator, group: int) -> None:
        super().__init__(whole)
        self._levels = _Levels(whole, group)
        self._started = _Levels(whole, group)
        self._beside: Beside | None = None

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        if wait:
            self._levels.all_reduce(tensors, reduction)
            return DONE
        self._beside = self._beside or Beside(f"refluid-exchange-{self._inner.rank}")
        return self._beside.start(self._started.all_reduce, tensors, reduction)

    def close(self) -> None:
        if self._beside is not None:
            self._beside.close()
        for one in (self._levels, self._started, self._inner):
            one.close()


def _chunks(tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    for one in tensors:
        yield from torch.split(flat(one), _CHUNK)


def groups_of(comm: Communicator, leaders: int) -> int:
    """The number of this member's group: its host; on one host, that of so many equal parts."""
    if comm.local_size < comm.size:
        return comm.node
    parts = min(max(leaders, 1), comm.size)
    return comm.rank * parts // comm.size
