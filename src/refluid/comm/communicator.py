"""`Communicator`: one member's end of a group that exchanges values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.core.threads import begin_thread
from refluid.core.whole_threads import is_over, outcome, submitted

Exchanged = Tensor | SelectedRows


class Work(Protocol):
    """An exchange that was started."""

    def wait(self) -> None:
        """Returns when it is done; raises what went wrong in it."""

    def done(self) -> bool:
        """Whether `wait` would return at once."""


class Communicator(Protocol):
    """One of `size` members, numbered by `rank` from 0.

    All members call the same methods in the same order, but for `send` and `recv`. Where one
    fails, goes away, or isn't there for `timeout` seconds (None: any time), those that need it
    raise PeerFailed. Values of tensors that don't fit together are EnforceNotMet at all members.
    """

    @property
    def rank(self) -> int:
        """Number of this member, from 0."""

    @property
    def size(self) -> int:
        """How many members there are."""

    @property
    def node(self) -> int:
        """Number of this member's machine among those of the group, from 0."""

    @property
    def local_rank(self) -> int:
        """Number of this member among those on its machine, from 0."""

    @property
    def local_size(self) -> int:
        """How many members are on its machine."""

    @property
    def timeout(self) -> float | None:
        """Seconds that a member waits for another."""

    @property
    def background(self) -> bool:
        """Whether an exchange goes on by itself once it is started."""

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """The members that give the same color, in the order of `key` and then rank.

        None, which is for this member, makes it one of no group.
        """

    def send(self, tensors: Sequence[Tensor], to: int, tag: int = 0) -> None:
        """Sends tensors, which may be overwritten when this returns; the other needn't wait."""

    def recv(self, tensors: Sequence[Tensor], source: int, tag: int = 0) -> None:
        """Overwrites tensors with what `source` sent by that tag, first sent first."""

    def take(self, count: int, source: int, tag: int = 0) -> list[Tensor]:
        """The next tensors that `source` sent by that tag, of any shapes and types, on the CPU."""

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        """Overwrites each tensor with the `sum`, `max`, `min` or `prod` over all members.

        In the order of ranks: all get the same bits. wait: return when it is done; else tensors
        may be used after `Work.wait`, and started exchanges follow one another in order.
        """

    def all_gather(self, value: Exchanged) -> list[Exchanged]:
        """The values of all members, by rank; they may differ in shape and must not be changed."""

    def all_to_all(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """What each member has for this one, by rank, of parts[rank] for each; of any shapes."""

    def reduce_scatter(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        """This member's share, along dimension 0, of the reduction over all members."""

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        """Overwrites each tensor with that of member `root`."""

    def agree(self, what: Sequence[str]) -> None:
        """EnforceNotMet at all members, naming the first difference, unless all bring the same.

        what: lines, the first of which says what this member is about to do, as a verb: members
        that are about to do different things, exchanges included, learn of it here or there.
        """

    def barrier(self) -> None:
        """Returns when all members have come here."""

    def close(self) -> None:
        """Leaves the group; others that wait for this member get PeerFailed."""


class _Done:
    """What needs no waiting."""

    def wait(self) -> None:
        pass

    def done(self) -> bool:
        return True


DONE: Work = _Done()


class _Started:
    def __init__(self, future: Future[None]) -> None:
        self._future = future

    def wait(self) -> None:
        outcome(self._future)

    def done(self) -> bool:
        return is_over(self._future)


class Beside:
    """A thread for exchanges that are started and waited for later: one after the other."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(
            1, name, initializer=begin_thread, initargs=(torch.get_num_threads(),)
        )

    def start(self, exchange: Callable[..., Any], *given: Any) -> Work:
        """Calls it once those started before are done."""
        return _Started(submitted(self._pool, exchange, *given))

    def close(self) -> None:
        """Ends the thread once it is idle."""
        self._pool.shutdown(wait=False)


def share_of(tensor: Tensor, rank: int, size: int) -> slice:
    """The rows that `reduce_scatter` gives a member."""
    if not tensor.dim() or tensor.shape[0] % size:
        shape = tuple(tensor.shape)
        raise EnforceNotMet(f"{size} members can't share the rows of a tensor of shape {shape}")
    rows = tensor.shape[0] // size
    return slice(rank * rows, (rank + 1) * rows)
