"""What all replicas fetched, in one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from torch import Tensor

from refluid.runtime.plan import Fetched


class Together(Sequence[Fetched]):
    """The values of all replicas by rank; they lie one after the other in `stacked`."""

    def __init__(self, stacked: Tensor) -> None:
        self._stacked = stacked

    def __len__(self) -> int:
        return len(self._stacked)

    @overload
    def __getitem__(self, rank: int) -> Fetched: ...
    @overload
    def __getitem__(self, rank: slice) -> list[Fetched]: ...
    def __getitem__(self, rank: int | slice) -> Fetched | list[Fetched]:
        if isinstance(rank, slice):
            return [Fetched(one) for one in self._stacked[rank]]
        return Fetched(self._stacked[rank])

    @property
    def joined(self) -> Fetched:
        """All rows as one value; a number of each replica is a row."""
        one = self._stacked
        return Fetched(one.flatten(0, 1) if one.dim() > 1 else one)


# For each fetch the values of all replicas by rank.
ReplicaResults = list[Sequence[Fetched]]
