"""Which push of a trainer is the last that a server applied, part by part of what it holds.

It is one number as long as nothing moves. What comes from another server brings the number that it
had there, until a push has reached all parts: a trainer sends a push that wasn't answered by all
servers again, dealt anew, and each part takes it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.rows.ids import PARTS, deal_ids
from refluid.pserver.applying import Push


@dataclass(frozen=True)
class ServerShare:
    """Parts of the ids, bool [PARTS], and slices of dense parameters by name."""

    parts: Tensor
    slices: frozenset[str]

    def both(self, other: ServerShare) -> ServerShare:
        """What two shares have in common."""
        return ServerShare(self.parts & other.parts, self.slices & other.slices)

    def less(self, other: ServerShare) -> ServerShare:
        """What the other one lacks."""
        return ServerShare(self.parts & ~other.parts, self.slices - other.slices)

    def __bool__(self) -> bool:
        return bool(self.slices) or bool(self.parts.any())


@dataclass
class PushMarks:
    """applied: the last push that all was applied of, but for the `moved` shares, which differ."""

    applied: int = 0
    moved: list[tuple[ServerShare, int]] = field(default_factory=list)

    def reached(self, sequence: int) -> bool:
        """Whether everything has that push."""
        return self.applied >= sequence and all(mark >= sequence for _, mark in self.moved)

    def settle(self, sequence: int) -> None:
        """Everything has that push now."""
        self.applied = sequence
        self.moved.clear()

    def of(self, share: ServerShare) -> list[tuple[ServerShare, int]]:
        """The marks of a share, which goes elsewhere with them."""
        found, rest = [], share
        for one, mark in self.moved:
            if common := rest.both(one):
                found.append((common, mark))
                rest = rest.less(one)
        return [*found, (rest, self.applied)] if rest else found

    def take(self, shares: list[tuple[ServerShare, int]]) -> None:
        """Shares come from elsewhere, with their marks."""
        for share, mark in shares:
            kept = [(own.less(share), former) for own, former in self.moved]
            self.moved = [(own, former) for own, former in kept if own]
            self.moved.append((share, mark))

    def wanting(self, push: Push, sequence: int) -> Push:
        """What of a push isn't applied yet; it counts for learning rates unless it did before."""
        if not self.moved:
            return push
        lacks = torch.full((PARTS,), self.applied < sequence)
        done, open_ = set[str](), set[str]()
        for share, mark in self.moved:
            lacks[share.parts] = mark < sequence
            (open_ if mark < sequence else done).update(share.slices)
        base = self.applied < sequence
        names = [one for one in push.dense if one in open_ or (base and one not in done)]
        sparse = {}
        for name, (ids, rows) in push.sparse.items():
            chosen = deal_ids(ids.contiguous(), lacks.int(), 2)[1]
            if len(chosen):
                sparse[name] = ids[chosen], rows[chosen]
        dense = {one: push.dense[one] for one in names}
        return Push(dense, sparse, push.steps if base else 0, push.delta)


def told_share(share: ServerShare) -> dict[str, Any]:
    """A share as JSON has it: the parts as ranges."""
    none = torch.zeros(1, dtype=torch.int32)
    edges = torch.diff(share.parts.int(), prepend=none, append=none)
    return {"parts": edges.nonzero().view(-1).tolist(), "slices": sorted(share.slices)}


def read_share(told: Mapping[str, Any]) -> ServerShare:
    """The share that was told. KeyError, TypeError, ValueError or IndexError for anything else."""
    parts = torch.zeros(PARTS, dtype=torch.bool)
    edges = [int(one) for one in told["parts"]]
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        parts[begin:end] = True
    return ServerShare(parts, frozenset(map(str, told["slices"])))


def told_marks(marks: PushMarks) -> dict[str, Any]:
    """Marks as JSON has them."""
    return {"applied": marks.applied, "moved": told_shares(marks.moved)}


def told_shares(shares: list[tuple[ServerShare, int]]) -> list[Any]:
    return [[told_share(share), mark] for share, mark in shares]


def read_shares(told: Any) -> list[tuple[ServerShare, int]]:
    return [(read_share(share), int(mark)) for share, mark in told]


def read_marks(told: Mapping[str, Any]) -> PushMarks:
    """The marks that were told."""
    return PushMarks(int(told["applied"]), read_shares(told["moved"]))
