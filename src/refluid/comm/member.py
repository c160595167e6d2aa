"""`Member`: one replica's end of a group that exchanges values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from refluid.core.selected_rows import SelectedRows

Exchanged = Tensor | SelectedRows


class Member(Protocol):
    """One of `size` replicas; every method is called by all of them, in the same order."""

    @property
    def rank(self) -> int:
        """Number of this replica, from 0."""

    @property
    def size(self) -> int:
        """How many replicas there are."""

    def all_reduce(self, tensors: Sequence[Tensor], reduction: str = "sum") -> None:
        """Overwrites each tensor with the `sum`, `max`, `min` or `prod` over all replicas."""

    def all_gather(self, value: Exchanged) -> list[Exchanged]:
        """The values of all replicas, by rank. They must not be changed."""

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        """Overwrites each tensor with that of replica `root`."""

    def barrier(self) -> None:
        """Returns when all replicas have come here."""


class _Alone:
    """A group of one."""

    rank = 0
    size = 1

    def all_reduce(self, tensors: Sequence[Tensor], reduction: str = "sum") -> None:
        pass

    def all_gather(self, value: Exchanged) -> list[Exchanged]:
        return [value]

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        pass

    def barrier(self) -> None:
        pass


ALONE: Member = _Alone()
