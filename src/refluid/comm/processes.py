"""Members in processes of their own, by torch.distributed (gloo).

Each exchange goes from every member to every other one directly, so that each sees itself who went
away. Reductions are taken in the order of ranks, as in threads: the same bits.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.comm.agreeing import described, in_short, require_alike
from refluid.comm.communicator import DONE, Beside, Communicator, Exchanged, Work, share_of
from refluid.comm.layouts import bytes_of, empty_head, head_of, tensor_for
from refluid.comm.link import PeerLink, said
from refluid.comm.meeting import Address, Meeting, meet_at
from refluid.comm.reducing import as_one, by_type, reduced, take_apart
from refluid.comm.spans import note
from refluid.comm.values import gather_values
from refluid.core.errors import EnforceNotMet, PeerFailed
from refluid.core.selected_rows import SelectedRows
from refluid.kernels.process_groups import gloo

_CPU = torch.device("cpu")
# Tags of messages: 0 exchanges, 1 those waited for later, 2 what is announced, then `send`'s.
_STARTED, _WORDS, _SENT = 1, 2, 3
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
        self._met, self._ranks, self._path = met, ranks, path
        machines = [met.machines[one] for one in ranks]
        self.node = list(dict.fromkeys(machines)).index(machines[rank])
        near = [one for one, machine in enumerate(machines) if machine == machines[rank]]
        self.local_rank, self.local_size = near.index(rank), len(near)
        self._link = PeerLink(self._connected(), rank, self.size)
        self._tag, self._doing = 0, ""
        self._splits = 0
        self._beside: tuple[Processes, Beside] | None = None
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
                self._met.store, self._path, self.rank, self.size, self._met.host, self.timeout
            )
        except RuntimeError as error:
            name = f"trainer {self.rank} of {self.size}"
            raise PeerFailed(f"{name} could not connect with the others: {said(error)}") from error

    # -- the methods of Communicator --------------------------------------------------------------

    def agree(self, what: Sequence[str]) -> None:
        # All exchanges begin with this one, of one length, so none is taken for another.
        self._doing = in_short(what)
        data = "\n".join(line.replace("\n", " ") for line in what).encode()
        mine = torch.frombuffer(bytearray(hashlib.sha256(data).digest()), dtype=torch.uint8)
        found = self._brought(mine, [torch.empty_like(mine)] * self.size)
        if any(not torch.equal(one, mine) for one in found):
            text = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            everyone = [bytes(one.numpy()).decode().split("\n") for one in self._told(text)]
            require_alike(everyone, "trainer")

    def _swap(self, give: Sequence[Tensor], take: Sequence[Tensor]) -> None:
        """Sends give[rank] and overwrites take[rank], both flat and contiguous, of known sizes."""
        self._link.swap(give, take, self._tag, self._doing)

    def announce(self, number: int) -> Callable[[], list[int]]:
        """Tells all others a number, without waiting; gives what tells theirs, by rank.

        Numbers that are told one after the other are told in that order.
        """
        link, own = self._link, torch.tensor([number])
        found = [torch.empty_like(own) for _ in range(self.size)]
        found[self.rank] = own
        others = [one for one in range(self.size) if one != self.rank]
        works = [(one, link.receiving(found[one], one, _WORDS)) for one in others]
        works += [(one, link.sending(own, one, _WORDS)) for one in others]

        def told() -> list[int]:
            link.finish(works, "say whether there are more data")
            works.clear()
            return [int(one) for one in found]

        return told

    def _brought(self, mine: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
        """What each member gives all others, by rank; like: of those shapes."""
        found = list(map(torch.empty_like, like))
        self._swap([mine] * self.size, found)
        return found

    def _told(self, data: Tensor) -> list[Tensor]:
        """Bytes of each member, of any length."""
        length = torch.tensor([data.numel()])
        lengths = self._brought(length, [length] * self.size)
        return self._brought(data, [data.new_empty(int(one)) for one in lengths])

    def barrier(self) -> None:
        self.agree(["wait for all"])

    def all_to_all(self, parts: Sequence[Tensor]) -> list[Tensor]:
        if len(parts) != self.size:
            raise EnforceNotMet(f"each of {self.size} members needs a part, not {len(parts)}")
        self.agree(["give each its part"])
        given = [one.detach().to(_CPU).contiguous() for one in parts]
        heads = [empty_head() for _ in parts]
        self._swap([head_of(one) for one in given], heads)
        found = [tensor_for(head) for head in heads]
        self._swap(list(map(bytes_of, given)), list(map(bytes_of, found)))
        return [one.to(parts[self.rank].device) for one in found]

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
        if not wait:
            other, thread = self._beside = self._beside or self._with_thread()
            return thread.start(other.all_reduce, tensors, reduction)
        begun = time.perf_counter()
        self.agree([f"reduce by {reduction}", *described(tensors)])
        for alike in by_type(tensors):
            self._all_reduce(alike, reduction)
        note("exchange", begun)
        return DONE

    def _all_reduce(self, tensors: Sequence[Tensor], reduction: str) -> None:
        """The same for tensors of one type, exchanged as one: each reduces an equal part of it."""
        whole = as_one(tensors)
        share = self._reduced(list(whole.tensor_split(self.size)), reduction)
        total = torch.empty_like(whole)
        found = list(map(bytes_of, total.tensor_split(self.size)))
        self._swap([bytes_of(share)] * self.size, found)
        take_apart(total, tensors)

    def _reduced(self, parts: Sequence[Tensor], reduction: str) -> Tensor:
        """This member's one of equal parts, reduced over all members."""
        copies = [torch.empty_like(parts[self.rank]) for _ in parts]
        self._swap(list(map(bytes_of, parts)), list(map(bytes_of, copies)))
        return reduced(copies, reduction, _CPU)

    def _with_thread(self) -> tuple[Processes, Beside]:
        """The same connections, but messages of another kind, for what is waited for later."""
        other = copy.copy(self)
        other._tag = _STARTED
        return other, Beside(f"refluid-exchange-{self.rank}")

    def reduce_scatter(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        self.agree([f"reduce and share by {reduction}", *described([tensor])])
        rows = [share_of(tensor, one, self.size) for one in range(self.size)]
        whole = tensor.detach().to(_CPU).contiguous()
        return self._reduced([whole[one] for one in rows], reduction).to(tensor.device)

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        self.agree([f"take from trainer {root}", *described(tensors)])
        nothing = torch.empty(0, dtype=torch.uint8)
        for tensor in tensors:
            whole = tensor.detach().to(_CPU, copy=True).contiguous()
            data = bytes_of(whole)
            give = data.clone() if self.rank == root else nothing
            take = [data if one == root else nothing for one in range(self.size)]
            self._swap([give] * self.size, take)
            tensor.copy_(whole)

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        everyone = gather_values(self, [color, key])
        self._splits += 1
        if color is None:
            return None
        same = [(its, rank) for rank, (name, its) in enumerate(everyone) if name == color]
        ranks = [rank for _, rank in sorted(same)]
        path = f"{self._path}/{self._splits}.{color}"
        members = [self._ranks[one] for one in ranks]
        return Processes(self._met, members, ranks.index(self.rank), self.timeout, path)

    def send(self, tensors: Sequence[Tensor], to: int, tag: int = 0) -> None:
        self._require_other(to)
        for tensor in tensors:
            whole = tensor.detach().to(_CPU, copy=True).contiguous()
            for part in (head_of(whole), bytes_of(whole)):
                self._link.sent.append((to, self._link.sending(part, to, tag + _SENT), part))
        while sum(part.nbytes for _, _, part in self._link.sent) > _UNDER_WAY:
            other, work, _ = self._link.sent.pop(0)
            self._link.finish([(other, work)])

    def recv(self, tensors: Sequence[Tensor], source: int, tag: int = 0) -> None:
        self._require_other(source)
        link, tag = self._link, tag + _SENT
        for tensor in tensors:
            head = empty_head()
            link.finish([(source, link.receiving(head, source, tag))])
            found = tensor_for(head)
            link.finish([(source, link.receiving(bytes_of(found), source, tag))])
            if found.shape != tensor.shape or found.dtype is not tensor.dtype:
                shape = tuple(found.shape)
                raise EnforceNotMet(f"trainer {source} sent another shape or type: {shape}")
            tensor.copy_(found)

    def _require_other(self, rank: int) -> None:
        if not 0 <= rank < self.size or rank == self.rank:
            raise EnforceNotMet(f"{rank} is no other one of {self.size} members")

    def close(self) -> None:
        """Leaves once what was sent is taken; others that wait for this process get PeerFailed."""
        if self._beside is not None:
            self._beside[1].close()
            self._beside = None
        with contextlib.suppress(PeerFailed):
            while self._link.sent:
                receiver, work, _ = self._link.sent.pop(0)
                self._link.finish([(receiver, work)])
        self._link.leave(f"trainer {self.rank} has left the group")
