"""One level of a LoD as operators use it: offsets, and the tensors that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from refluid.core.lod import Lod

_CPU = torch.device("cpu")


class Offsets:
    """Where each sequence begins and the last one ends: `Offsets([0, 2, 5])` are two sequences.

    Never changed. What is derived from it is made once and kept, for all operators of a step.
    """

    __slots__ = ("_made", "values")

    def __init__(self, values: Iterable[int]) -> None:
        self.values: tuple[int, ...] = tuple(map(int, values))
        self._made: dict[tuple[str, torch.device], Tensor] = {}

    @classmethod
    def of_lengths(cls, lengths: Iterable[int]) -> Offsets:
        """`[2, 3]` -> `Offsets([0, 2, 5])`."""
        return cls(accumulate(map(int, lengths), initial=0))

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self.values) - 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Offsets) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        return f"Offsets({list(self.values)})"

    @property
    def total(self) -> int:
        """The number of rows, or of sequences of the next level."""
        return self.values[-1]

    @property
    def lengths(self) -> list[int]:
        """The length of each sequence."""
        return [end - start for start, end in pairwise(self.values)]

    @property
    def longest(self) -> int:
        """The length of the longest sequence, 0 if there is none."""
        return max(self.lengths, default=0)

    def tensor(self, device: torch.device = _CPU) -> Tensor:
        """The offsets, int64 of shape [sequences + 1]."""
        return self._once("values", device, lambda: torch.tensor(self.values))

    def length_tensor(self, device: torch.device = _CPU) -> Tensor:
        """The lengths, int64 of shape [sequences]."""
        return self._once("lengths", device, lambda: self.tensor().diff())

    def owners(self, device: torch.device = _CPU) -> Tensor:
        """For each row the sequence that it is part of, int64 of shape [total]."""
        return self._once(
            "owners",
            device,
            lambda: torch.repeat_interleave(
                torch.arange(len(self)), self.length_tensor(), output_size=self.total
            ),
        )

    def positions(self, device: torch.device = _CPU) -> Tensor:
        """For each row its place in its sequence, int64 of shape [total]."""
        return self._once(
            "positions",
            device,
            lambda: torch.arange(self.total) - self.tensor()[self.owners()],
        )

    def through(self, below: Offsets) -> Offsets:
        """These sequences of sequences counted in what the level `below` counts."""
        return Offsets(below.values[start] for start in self.values)

    def _once(self, name: str, device: torch.device, make: Callable[[], Tensor]) -> Tensor:
        found = self._made.get((name, device))
        if found is None:
            found = self._made[name, device] = make().to(device)
        return found


Levels = tuple[Offsets, ...]


def as_levels(lod: Sequence[Sequence[int]]) -> Levels:
    """A LoD of lists as operators take it."""
    return tuple(Offsets(level) for level in lod)


def as_lod(levels: Levels) -> Lod:
    """A LoD as lists, for users."""
    return [list(level.values) for level in levels]
