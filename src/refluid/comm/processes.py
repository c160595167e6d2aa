"""Members in processes of their own, by torch.distributed (gloo).

Each exchange goes from every member to every other one directly, so that each sees itself who went
away. Reductions are taken in the order of ranks, as in threads: the same bits.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from refluid.comm.agreeing import described, in_short, require_alike
from refluid.comm.communicator import DONE, Beside, Communicator, Exchanged, Work, share_of
from refluid.comm.layouts import bytes_of, empty_head, fill, head_of, tensor_for
from refluid.comm.link import PeerLink, Purpose, UnderWay, said
from refluid.comm.meeting import Address, Meeting, meet_at
from refluid.comm.reducing import as_one, by_type, take_apart
from refluid.comm.spans import note
from refluid.comm.stages import Stages, chunks, finish, in_flight
from refluid.comm.summing import everywhere, sharing
from refluid.comm.values import gather_values
from refluid.core.errors import EnforceNotMet, PeerFailed
from refluid.core.interruptible import interruptibly
from refluid.core.selected_rows import SelectedRows
from refluid.kernels.process_groups import gloo

_CPU = torch.device("cpu")
# Tags of messages: of exchanges, of those waited for later and their digests, of what is announced;
# then `send`'s.
_NOW, _LATER, _DIGESTS, _WORDS, _SENT = range(5)
# So many chunks of an exchange are under way: the link has something to do while one is summed.
_BESIDE = 3
# What may be under way without the receiver having asked for it, in bytes.
_UNDER_WAY = 1 << 28


def meet(
    rank: int, size: int, address: Address, *, wait: float = 1800.0, patience: float = 300.0
) -> Processes:
    """Process `rank` of `size`, which must all call this.

    address: where number 0 listens. wait: seconds until all must have come; patience: seconds that
    one waits for another afterwards. Raises PeerFailed naming those that did not come.
    """
    return Processes(meet_at(address, rank, size, wait), list(range(size)), rank, patience)


class Processes:
    """The end of one process. ranks: the members' numbers in the meeting; path: its own name."""

    def __init__(
        self, met: Meeting, ranks: list[int], rank: int, timeout: float, path: str = "all"
    ) -> None:
        self.rank, self.size, self.timeout = rank, len(ranks), timeout
        self.background = True
        self._met, self._ranks, self.path = met, ranks, path
        machines = [met.machines[one] for one in ranks]
        self.node = list(dict.fromkeys(machines)).index(machines[rank])
        near = [one for one, machine in enumerate(machines) if machine == machines[rank]]
        self.local_rank, self.local_size = near.index(rank), len(near)
        self.link = PeerLink(self._connected(), rank, ranks, met.roll)
        self._splits = 0
        self._beside: Beside | None = None
        self.barrier()  # all are connected before one may leave

    @property
    def store(self) -> Any:
        """Where the processes met; for what may be late."""
        return self._met.store

    def _connected(self) -> Any:
        if self.size == 1:
            return None
        try:
            return gloo(
                self._met.store, self.path, self.rank, self.size, self._met.host, self.timeout
            )
        except RuntimeError as error:
            name = f"trainer {self.rank} of {self.size}"
            raise PeerFailed(f"{name} could not connect with the others: {said(error)}") from error

    # -- exchanges in stages ----------------------------------------------------------------------

    def agreeing(self, what: Sequence[str], *, wait: bool = True) -> Stages:
        """As `agree`; a stage. wait: of an exchange that isn't waited for later."""
        # All exchanges begin with this one, of one length, so none is taken for another.
        data = "\n".join(line.replace("\n", " ") for line in what).encode()
        mine = torch.frombuffer(bytearray(hashlib.sha256(data).digest()), dtype=torch.uint8)
        first = self.purpose(what, wait=wait)
        purpose = first if wait else Purpose(_DIGESTS, first.doing)
        found = yield from self._brought(mine, [torch.empty_like(mine)] * self.size, purpose)
        if any(not torch.equal(one, mine) for one in found):
            text = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            everyone = yield from self._told(text, first)
            require_alike([bytes(one.numpy()).decode().split("\n") for one in everyone], "trainer")

    def purpose(self, what: Sequence[str], *, wait: bool = True) -> Purpose:
        """That of an exchange's messages."""
        return Purpose(_NOW if wait else _LATER, in_short(what))

    def begin(self, stages: Stages, *, wait: bool, links: Sequence[PeerLink] = ()) -> Work:
        """Takes all stages of an exchange; wait: now. Of one for later the first is begun at once.

        links: over which it goes, this one's if none are given.
        """
        begun = time.perf_counter()
        if wait:
            self._now(stages, links)
            note("exchange", begun)
            return DONE
        self._beside = self._beside or Beside(f"refluid-exchange-{self.rank}")
        return self._beside.start(_later, next(stages), stages)

    def _now(self, stages: Generator[UnderWay, None, Any], links: Sequence[PeerLink] = ()) -> Any:
        def interrupted() -> None:
            for one in links or [self.link]:
                one.interrupted()

        return interruptibly(partial(finish, stages), "refluid exchange", interrupted)

    def _brought(
        self, mine: Tensor, like: Sequence[Tensor], purpose: Purpose
    ) -> Generator[UnderWay, None, list[Tensor]]:
        """What each member gives all others, by rank; like: of those shapes."""
        found = list(map(torch.empty_like, like))
        found[self.rank] = mine
        yield self.link.swapping([mine] * self.size, found, purpose)
        return found

    def _told(self, data: Tensor, purpose: Purpose) -> Generator[UnderWay, None, list[Tensor]]:
        """Bytes of each member, of any length."""
        length = torch.tensor([data.numel()])
        lengths = yield from self._brought(length, [length] * self.size, purpose)
        like = [data.new_empty(int(one)) for one in lengths]
        return (yield from self._brought(data, like, purpose))

    # -- the methods of Communicator --------------------------------------------------------------

    def agree(self, what: Sequence[str]) -> None:
        self._now(self.agreeing(what))

    def announce(self, number: int) -> Callable[[], list[int]]:
        """Tells all others a number, without waiting; gives what tells theirs, by rank.

        Numbers that are told one after the other are told in that order.
        """
        own = torch.tensor([number])
        found = [torch.empty_like(own) for _ in range(self.size)]
        found[self.rank] = own
        purpose = Purpose(_WORDS, "say whether there are more data")
        works = self.link.swapping([own] * self.size, found, purpose).works

        def told() -> list[int]:
            self.link.finish(works, purpose.doing)
            works.clear()
            return [int(one) for one in found]

        return told

    def barrier(self) -> None:
        self.agree(["wait for all"])

    def all_to_all(self, parts: Sequence[Tensor]) -> list[Tensor]:
        if len(parts) != self.size:
            raise EnforceNotMet(f"each of {self.size} members needs a part, not {len(parts)}")
        given = [one.detach().to(_CPU).contiguous() for one in parts]
        found: list[Tensor] = self._now(self._dealing(given))
        return [one.to(parts[self.rank].device) for one in found]

    def _dealing(self, given: list[Tensor]) -> Generator[UnderWay, None, list[Tensor]]:
        what = ["give each its part"]
        yield from self.agreeing(what)
        heads = [empty_head() for _ in given]
        heads[self.rank] = head_of(given[self.rank])
        yield self.link.swapping([head_of(one) for one in given], heads, self.purpose(what))
        found = [tensor_for(head) for head in heads]
        found[self.rank].copy_(given[self.rank])
        yield self.link.swapping(given, found, self.purpose(what))
        return found

    def all_gather(self, value: Exchanged) -> list[Exchanged]:
        if isinstance(value, Tensor):
            return [*self.all_to_all([value] * self.size)]
        height = torch.tensor([value.height()])
        parts = value.index, height, value.value
        everyone = (self.all_to_all([one] * self.size) for one in parts)
        return [SelectedRows(rows, int(h), held) for rows, h, held in zip(*everyone, strict=True)]

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        return self.begin(self._reducing(tensors, reduction, wait), wait=wait)

    def _reducing(self, tensors: Sequence[Tensor], reduction: str, wait: bool) -> Stages:
        what = [f"reduce by {reduction}", *described(tensors)]
        purpose = self.purpose(what, wait=wait)
        yield from self.agreeing(what, wait=wait)
        for alike in by_type(tensors):
            whole = as_one(alike)
            parts = (everywhere(self.link, one, reduction, purpose) for one in chunks(whole))
            yield from in_flight(parts, _BESIDE)
            take_apart(whole, alike)

    def reduce_scatter(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        whole = tensor.detach().to(_CPU, copy=True).contiguous()
        found: Tensor = self._now(self._scattering(whole, reduction))
        return found.to(tensor.device)

    def _scattering(self, whole: Tensor, reduction: str) -> Generator[UnderWay, None, Tensor]:
        what = [f"reduce and share by {reduction}", *described([whole])]
        yield from self.agreeing(what)
        rows = [whole[share_of(whole, one, self.size)] for one in range(self.size)]
        yield from sharing(self.link, rows, reduction, self.purpose(what))
        return rows[self.rank].clone()

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        self._now(self._spreading(tensors, root))

    def _spreading(self, tensors: Sequence[Tensor], root: int) -> Stages:
        what = [f"take from trainer {root}", *described(tensors)]
        yield from self.agreeing(what)
        nothing = torch.empty(0)
        for tensor in tensors:
            whole = tensor.detach().to(_CPU).contiguous()
            give = whole if self.rank == root else nothing
            take = [whole if one == root else nothing for one in range(self.size)]
            yield self.link.swapping([give] * self.size, take, self.purpose(what))
            if self.rank != root:
                take_apart(whole.view(-1), [tensor])

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        everyone = gather_values(self, [color, key])
        self._splits += 1
        if color is None:
            return None
        same = [(its, rank) for rank, (name, its) in enumerate(everyone) if name == color]
        ranks = [rank for _, rank in sorted(same)]
        path = f"{self.path}/{self._splits}.{color}"
        members = [self._ranks[one] for one in ranks]
        return Processes(self._met, members, ranks.index(self.rank), self.timeout, path)

    def send(self, tensors: Sequence[Tensor], to: int, tag: int = 0) -> None:
        self._require_other(to)
        for tensor in tensors:
            whole = tensor.detach().to(_CPU, copy=True).contiguous()
            for part in (head_of(whole), bytes_of(whole)):
                work = self.link.sending(part, to, Purpose(tag + _SENT))
                self.link.sent.append((to, work, part))
        while sum(part.nbytes for _, _, part in self.link.sent) > _UNDER_WAY:
            other, work, _ = self.link.sent.pop(0)
            self.link.finish([(other, work)])

    def recv(self, tensors: Sequence[Tensor], source: int, tag: int = 0) -> None:
        fill(tensors, self.take(len(tensors), source, tag), f"trainer {source}")

    def take(self, count: int, source: int, tag: int = 0) -> list[Tensor]:
        self._require_other(source)
        link, purpose, found = self.link, Purpose(tag + _SENT), []
        for _ in range(count):
            head = empty_head()
            link.finish([(source, link.receiving(head, source, purpose))])
            found.append(tensor_for(head))
            link.finish([(source, link.receiving(bytes_of(found[-1]), source, purpose))])
        return found

    def _require_other(self, rank: int) -> None:
        if not 0 <= rank < self.size or rank == self.rank:
            raise EnforceNotMet(f"{rank} is no other one of {self.size} members")

    def close(self) -> None:
        """Leaves once what was sent is taken; others that wait for this process get PeerFailed."""
        if self._beside is not None:
            self._beside.close()
            self._beside = None
        with contextlib.suppress(PeerFailed):
            while self.link.sent:
                receiver, work, _ = self.link.sent.pop(0)
                self.link.finish([(receiver, work)])
        if self.path == "all":
            self._met.roll.leave()
        self.link.leave(f"trainer {self.rank} has left the group")


def _later(begun: UnderWay, stages: Stages) -> None:
    """The stages of an exchange whose first one was begun."""
    begin = time.perf_counter()
    try:
        begun.wait()
        finish(stages)
    finally:
        stages.close()
        note("exchange", begin)
