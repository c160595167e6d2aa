"""Gradients reduced in other ways: several exchanges beside each other, or host by host."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from torch import Tensor

from refluid.comm.agreeing import described
from refluid.comm.around import Around
from refluid.comm.communicator import Communicator, Work
from refluid.comm.link import Purpose, UnderWay
from refluid.comm.processes import Processes
from refluid.comm.reducing import as_one, by_type, take_apart
from refluid.comm.stages import Stages, chunks, in_flight
from refluid.comm.summing import everywhere, sharing, spreading
from refluid.comm.values import gather_values

# Of a chunk: summed within the group, parts and sums between groups, and handed back.
_STAGES = 4
# So many chunks are under way: one in each stage, and those that the links do meanwhile.
_BESIDE = 6


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


class Hierarchical(Around):
    """Reduces within each group first, then between the groups.

    The first members of a group, as many as the smallest group has, carry an equal part each: they
    reduce it over the group, exchange it with those who carry it in the other groups, and give it
    to the others of the group. So what goes between hosts is what one member of each would send.
    group: the number of this member's group. All members get the same bits.
    """

    def __init__(self, whole: Processes, group: int) -> None:
        super().__init__(whole)
        self._whole = whole
        groups = gather_values(whole, group)
        self._carriers = min(groups.count(one) for one in groups)
        near = whole.split(group)
        assert isinstance(near, Processes)
        self._near = near
        carries = near.rank if near.rank < self._carriers else None
        across = whole.split(carries)
        self._across = across if isinstance(across, Processes) else None

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        links = [one.link for one in (self._near, self._across) if one is not None]
        return self._whole.begin(self._stages(tensors, reduction, wait), wait=wait, links=links)

    def _stages(self, tensors: Sequence[Tensor], reduction: str, wait: bool) -> Stages:
        what = [f"reduce by {reduction}", *described(tensors)]
        levels = [one for one in (self._near, self._across) if one is not None]
        yield from in_flight([one.agreeing(what, wait=wait) for one in levels], len(levels))
        purpose = self._near.purpose(what, wait=wait)
        for alike in by_type(tensors):
            whole = as_one(alike)
            parts = (self._chunk(one, reduction, purpose) for one in chunks(whole))
            yield from in_flight(parts, _BESIDE)
            take_apart(whole, alike)

    def _chunk(self, whole: Tensor, reduction: str, purpose: Purpose) -> Stages:
        near, across = self._near.link, self._across
        parts = [*whole.tensor_split(self._carriers)]
        parts += [whole[:0]] * (near.size - self._carriers)
        yield from sharing(near, parts, reduction, purpose)
        if across is not None:
            yield from everywhere(across.link, parts[near.rank], reduction, purpose)
        else:
            yield from repeat(UnderWay(near, []), _STAGES - 2)
        yield from spreading(near, parts, purpose)

    def close(self) -> None:
        for one in (self._near, self._across, self._inner):
            if one is not None:
                one.close()


def groups_of(comm: Communicator, leaders: int) -> int:
    """The number of this member's group: its host; on one host, that of so many equal parts."""
    if comm.local_size < comm.size:
        return comm.node
    parts = min(max(leaders, 1), comm.size)
    return comm.rank * parts // comm.size
