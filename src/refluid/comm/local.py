"""Members in threads of one process, which exchange tensors by reading each other's memory."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.comm.agreeing import require_alike
from refluid.comm.communicator import DONE, Beside, Communicator, Exchanged, Work, share_of
from refluid.comm.layouts import fill
from refluid.comm.reducing import part, reduce_all, reduced
from refluid.core.errors import EnforceNotMet, PeerFailed
from refluid.core.selected_rows import SelectedRows

# Tensors of at least that many elements are reduced in parts, one by each replica.
_SHARED = 1 << 14
_FAILED = "another replica failed while this one waited for it"


class LocalGroup:
    """`size` members that meet. Sums are taken in the order of ranks: all get the same bits.

    When one fails, `abort` makes all others that wait raise PeerFailed. timeout: seconds that
    members wait for each other, None for any time.
    """

    def __init__(self, size: int, timeout: float | None = None) -> None:
        self.size, self.timeout = size, timeout
        self.met = threading.Barrier(size)
        self.slots: list[Any] = [None] * size
        self.came = [0] * size
        self.why = ""
        self.changed = threading.Condition()
        self.sent: defaultdict[tuple[int, int, int], deque[list[Tensor]]] = defaultdict(deque)
        self.parts: list[LocalGroup] = []
        self._beside: LocalGroup | None = None
        self._threads: dict[int, Beside] = {}

    def member(self, rank: int) -> Communicator:
        """The end of replica `rank`."""
        return LocalMember(self, rank)

    def abort(self, why: str = _FAILED) -> None:
        """Wakes all that wait; the group can be used again after `reset`."""
        with self.changed:
            self.why = self.why or why
            self.changed.notify_all()
        self.met.abort()
        for group in self._others():
            group.abort(why)

    def reset(self) -> None:
        """Makes the group usable after `abort`, once no member is inside."""
        self.met.reset()
        self.slots = [None] * self.size
        self.why, self.came = "", [0] * self.size
        self.sent.clear()
        self.close()

    def close(self) -> None:
        """Ends the threads of exchanges that were started."""
        for thread in self._threads.values():
            thread.close()
        self.parts, self._beside, self._threads = [], None, {}

    def start(self, rank: int, tensors: Sequence[Tensor], reduction: str) -> Work:
        """Reduces tensors of a member while that does something else."""
        with self.changed:
            if self._beside is None:
                self._beside = self._another(self.size)
            if rank not in self._threads:
                self._threads[rank] = Beside(f"refluid-exchange-{rank}")
            member = self._beside.member(rank)
            return self._threads[rank].start(member.all_reduce, tensors, reduction)

    def part(self, size: int) -> LocalGroup:
        """A group of some members, which fail with the others."""
        with self.changed:
            made = self._another(size)
            self.parts.append(made)
            return made

    def _another(self, size: int) -> LocalGroup:
        made = LocalGroup(size, self.timeout)
        if self.why:
            made.abort(self.why)
        return made

    def _others(self) -> list[LocalGroup]:
        with self.changed:
            return [*self.parts, *([self._beside] if self._beside else [])]

    def reason(self) -> str:
        """Why members can't meet: the first that notices says it."""
        with self.changed:
            if not self.why:
                most = max(self.came)
                late = [rank for rank, times in enumerate(self.came) if times < most]
                names = ", ".join(map(str, late))
                self.why = f"replica {names} of {self.size} didn't come within {self.timeout} s"
                self.changed.notify_all()
            return self.why


class LocalMember:
    node = 0

    def __init__(self, group: LocalGroup, rank: int) -> None:
        self.group = group
        self.rank = self.local_rank = rank
        self.size = self.local_size = group.size
        self.timeout = group.timeout
        self.background = False  # a thread for it would take the core of another replica

    def barrier(self) -> None:
        group = self.group
        group.came[self.rank] += 1
        try:
            group.met.wait(group.timeout)
        except threading.BrokenBarrierError as broken:
            raise PeerFailed(group.reason()) from broken

    def agree(self, what: Sequence[str]) -> None:
        everyone = list(self._exchange(what))
        self.barrier()
        require_alike(everyone, "replica")

    def _exchange(self, value: Any) -> list[Any]:
        """What each member brought; all must call `barrier` when done with it."""
        self.group.slots[self.rank] = value
        self.barrier()
        return self.group.slots

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        everyone = list(self._exchange((color, key)))
        self.barrier()
        same = [(its, rank) for rank, (name, its) in enumerate(everyone) if name == color]
        ranks = [rank for _, rank in sorted(same)]
        makes = color is not None and ranks[0] == self.rank
        group = self._exchange(self.group.part(len(ranks)) if makes else None)[ranks[0]]
        self.barrier()
        return None if group is None else group.member(ranks.index(self.rank))

    def send(self, tensors: Sequence[Tensor], to: int, tag: int = 0) -> None:
        group, copies = self.group, [one.detach().clone() for one in tensors]
        _require_member(to, self)
        with group.changed:
            group.sent[self.rank, to, tag].append(copies)
            group.changed.notify_all()

    def recv(self, tensors: Sequence[Tensor], source: int, tag: int = 0) -> None:
        fill(tensors, self._next(source, tag), f"replica {source}")

    def take(self, count: int, source: int, tag: int = 0) -> list[Tensor]:
        found = self._next(source, tag)
        if len(found) != count:
            raise EnforceNotMet(f"replica {source} sent {len(found)} tensors, not {count}")
        return [one.cpu() for one in found]

    def _next(self, source: int, tag: int) -> list[Tensor]:
        """What a member sent at once."""
        group = self.group
        _require_member(source, self)
        with group.changed:
            waiting = group.sent[source, self.rank, tag]
            group.changed.wait_for(lambda: waiting or group.why, group.timeout)
            if not waiting:
                late = f"replica {source} of {self.size} sent nothing within {group.timeout} s"
                raise PeerFailed(group.why or late)
            return waiting.popleft()

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        if not wait:
            return self.group.start(self.rank, tensors, reduction)
        everyone = self._exchange(tensors)
        error = None
        try:
            for number, mine in enumerate(tensors):
                copies = [theirs[number] for theirs in everyone if len(theirs) == len(tensors)]
                if len(copies) < self.size or any(copy.shape != mine.shape for copy in copies):
                    error = _shapes(everyone)
                    break
                if mine.numel() < _SHARED:
                    if number % self.size == self.rank:
                        reduce_all(copies, reduction, mine)
                else:
                    shares = [part(copy, self.rank, self.size) for copy in copies]
                    reduce_all(shares, reduction, mine)
        finally:
            self.barrier()
        if error:
            raise EnforceNotMet(f"replicas can't reduce tensors of different shapes: {error}")
        return DONE

    def all_gather(self, value: Exchanged) -> list[Exchanged]:
        device = _device(value)
        found = [_near(one, device) for one in self._exchange(value)]
        self.barrier()
        return found

    def all_to_all(self, parts: Sequence[Tensor]) -> list[Tensor]:
        everyone = self._exchange(parts)
        try:
            if any(len(theirs) != self.size for theirs in everyone):
                raise EnforceNotMet(f"each of {self.size} replicas needs a part of each")
            device = parts[self.rank].device
            return [theirs[self.rank].to(device, copy=True) for theirs in everyone]
        finally:
            self.barrier()

    def reduce_scatter(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        everyone = list(self._exchange(tensor))
        try:
            shapes = [tuple(one.shape) for one in everyone]
            if len(set(shapes)) > 1:
                raise EnforceNotMet(f"replicas can't reduce tensors of different shapes: {shapes}")
            own = share_of(tensor, self.rank, self.size)
            return reduced([one[own] for one in everyone], reduction, tensor.device)
        finally:
            self.barrier()

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        everyone = self._exchange(tensors)
        try:
            shapes = _shapes(everyone)
            if any(one != shapes[root] for one in shapes):
                raise EnforceNotMet(f"replicas can't take tensors of different shapes: {shapes}")
            if self.rank != root:
                for mine, theirs in zip(tensors, everyone[root], strict=True):
                    mine.copy_(theirs)
        finally:
            self.barrier()

    def close(self) -> None:
        self.group.abort(f"replica {self.rank} of {self.size} left")


def _shapes(everyone: Sequence[Sequence[Tensor]]) -> list[list[tuple[int, ...]]]:
    return [[tuple(one.shape) for one in theirs] for theirs in everyone]


def _require_member(rank: int, member: Communicator) -> None:
    if not 0 <= rank < member.size or rank == member.rank:
        raise EnforceNotMet(f"{rank} is no other one of {member.size} members")


def _device(value: Exchanged) -> torch.device:
    return value.device if isinstance(value, Tensor) else value.value.device


def _near(value: Exchanged, device: torch.device) -> Exchanged:
    """The value on that device; itself where it is there."""
    if _device(value) == device:
        return value
    if isinstance(value, Tensor):
        return value.to(device)
    return SelectedRows(value.index.to(device), value.height(), value.value.to(device))
