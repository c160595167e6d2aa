"""`Sharded`: each member owns a share of what all train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from refluid.comm.agreeing import described
from refluid.comm.around import Around
from refluid.comm.communicator import DONE, Beside, Communicator, Work
from refluid.comm.reducing import as_one, by_type, reduced, summed, take_apart

_CPU = torch.device("cpu")
Exchanging = Callable[..., None]


@runtime_checkable
class Sharing(Protocol):
    """A member that owns a share, number `share` of `shares`."""

    share: int
    shares: int

    def reduce_to(self, tensors: Sequence[Tensor], owners: Sequence[int], wait: bool) -> Work:
        """Overwrites the tensors that this member owns with their sums over all members."""

    def spread(
        self, given: Sequence[Tensor], taken: Sequence[Tensor], owners: Sequence[int], wait: bool
    ) -> Work:
        """Overwrites `taken`, which others own, with what they have."""


class Sharded(Around):
    """Members in groups of `degree`, neighbours; the members of a group own a share each.

    share: the number of this member's. half: the element type in which float32 gradients go over
    the wire, None for their own.
    """

    def __init__(self, inner: Communicator, degree: int, half: torch.dtype | None = None) -> None:
        super().__init__(inner)
        self._half = half
        near = inner.split(inner.rank // degree)
        assert near is not None
        self._near, self._across = near, inner.split(inner.rank % degree)
        self.share, self.shares = near.rank, near.size
        self._beside: Beside | None = None

    def reduce_to(self, tensors: Sequence[Tensor], owners: Sequence[int], wait: bool) -> Work:
        """Overwrites the tensors that this member owns with their sums over all members.

        owners: the share to which each belongs; the others may be changed at once.
        """
        mine = [one for one, owner in zip(tensors, owners, strict=True) if owner == self.share]
        kinds = list(dict.fromkeys(one.dtype for one in tensors))
        payload = [self._packed(kind, tensors, owners) for kind in kinds]
        what = ["sum at owners", *_told(tensors, owners)]
        return self._do(wait, what, self._reduce, payload, mine, kinds)

    def _packed(
        self, kind: torch.dtype, tensors: Sequence[Tensor], owners: Sequence[int]
    ) -> list[Tensor]:
        """What goes to each member of the group."""
        sent = self._half if self._half is not None and kind is torch.float32 else kind
        parts: list[list[Tensor]] = [[] for _ in range(self.shares)]
        for one, owner in zip(tensors, owners, strict=True):
            if one.dtype is kind:
                parts[owner].append(one)
        return [
            as_one(part).to(sent, copy=True) if part else torch.empty(0, dtype=sent)
            for part in parts
        ]

    def _reduce(
        self, payload: list[list[Tensor]], mine: Sequence[Tensor], kinds: Sequence[torch.dtype]
    ) -> None:
        for kind, parts in zip(kinds, payload, strict=True):
            copies = self._near.all_to_all(parts)
            parts.clear()
            half = copies[0].dtype is not kind
            total = summed(copies) if half else reduced(copies, "sum", _CPU)
            if self._across is not None and self._across.size > 1 and total.numel():
                self._across.all_reduce([total])
            own = [one for one in mine if one.dtype is kind]
            if own:
                take_apart(total, own)

    def spread(
        self, given: Sequence[Tensor], taken: Sequence[Tensor], owners: Sequence[int], wait: bool
    ) -> Work:
        """Overwrites `taken`, which others own, with what they have.

        given: what this member owns, which may be changed at once. owners: of all tensors, in an
        order in which both lists are.
        """
        kinds = list(dict.fromkeys(one.dtype for one in (*given, *taken)))
        # The types in one order at all members.
        kinds.sort(key=str)
        payload = [as_one(some).clone() for some in by_type(given)]
        held = {one.dtype: one for one in payload}
        others = [owner for owner in owners if owner != self.share]
        what = ["take from owners", *(f"of share {owner}" for owner in owners)]
        return self._do(wait, what, self._spread, kinds, held, taken, others)

    def _spread(
        self,
        kinds: Sequence[torch.dtype],
        held: dict[torch.dtype, Tensor],
        taken: Sequence[Tensor],
        others: Sequence[int],
    ) -> None:
        for kind in kinds:
            parts = self._near.all_gather(held.pop(kind, torch.empty(0, dtype=kind)))
            for share, part in enumerate(parts):
                whole = [
                    one
                    for one, owner in zip(taken, others, strict=True)
                    if owner == share and one.dtype is kind
                ]
                if whole and isinstance(part, Tensor):
                    take_apart(part, whole)

    def _do(self, wait: bool, what: list[str], exchange: Exchanging, *given: Any) -> Work:
        """Does so, or starts it, once all members of the group are about to do the same."""
        if wait and self._beside is None:
            self._agreed(what, exchange, *given)
            return DONE
        # Exchanges that were started follow one another, and so must those that are waited for.
        self._beside = self._beside or Beside(f"refluid-shares-{self.rank}")
        work = self._beside.start(self._agreed, what, exchange, *given)
        if wait:
            work.wait()
        return work

    def _agreed(self, what: list[str], exchange: Exchanging, *given: Any) -> None:
        self._near.agree(what)
        exchange(*given)

    def close(self) -> None:
        if self._beside is not None:
            self._beside.close()
        for one in (self._near, self._across, self._inner):
            if one is not None:
                one.close()


def _told(tensors: Sequence[Tensor], owners: Sequence[int]) -> list[str]:
    """A line for each tensor: its type, its sizes, and whose it is."""
    shown = zip(described(tensors), owners, strict=True)
    return [f"{what} of share {owner}" for what, owner in shown]
