"""One level of a LoD as operators use it: offsets, and the tensors that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import accumulate
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from refluid.core.lod import Lod

_CPU = torch.device("cpu")
M = TypeVar("M")


class Offsets:
    """Where each sequence begins and the last one ends: `Offsets([0, 2, 5])` are two sequences.

    An int64 array is kept as it is. Never changed. What is derived from it is made once and kept,
    for all operators of a step.
    """

    __slots__ = ("_bounds", "_made", "_values", "array")

    def __init__(self, values: Iterable[int] | npt.NDArray[np.int64]) -> None:
        if not isinstance(values, np.ndarray | list | tuple):
            values = list(values)
        self.array: npt.NDArray[np.int64] = np.asarray(values, np.int64)
        self._values: tuple[int, ...] | None = None
        self._bounds: tuple[int, int] | None = None
        self._made: dict[Hashable, object] = {}

    @classmethod
    def of_lengths(cls, lengths: Iterable[int]) -> Offsets:
        """`[2, 3]` -> `Offsets([0, 2, 5])`."""
        return cls(accumulate(map(int, lengths), initial=0))

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self.array) - 1

    @property
    def count(self) -> int:
        """The same; a plan that is written out follows this number, and not what `len` gives."""
        return len(self.array) - 1

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Offsets) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        return f"Offsets({list(self.values)})"

    @property
    def values(self) -> tuple[int, ...]:
        """The offsets as Python's numbers."""
        if self._values is None:
            self._values = tuple(self.array.tolist())
        return self._values

    @property
    def total(self) -> int:
        """The number of rows, or of sequences of the next level; 0 where there are no offsets."""
        return int(self.array[-1]) if len(self.array) else 0

    @property
    def lengths(self) -> list[int]:
        """The length of each sequence."""
        found: list[int] = self.gaps().tolist()
        return found

    def gaps(self) -> npt.NDArray[np.int64]:
        """The length of each sequence, as an array of its own."""
        return self.array[1:] - self.array[:-1]  # `np.diff` takes ten times as long for a few

    @property
    def longest(self) -> int:
        """The length of the longest sequence, 0 if there is none."""
        return self._extremes()[1]

    @property
    def some_empty(self) -> bool:
        """Whether there is a sequence without rows."""
        return len(self) > 0 and self._extremes()[0] == 0

    def all_are(self, length: int) -> bool:
        """Whether no sequence has another length."""
        return len(self) == 0 or self._extremes() == (length, length)

    def _extremes(self) -> tuple[int, int]:
        if self._bounds is None:
            lengths = self.gaps()
            self._bounds = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
        return self._bounds

    def tensor(self, device: torch.device = _CPU) -> Tensor:
        """The offsets, int64 of shape [sequences + 1]."""
        return self.once(_values, device=device)

    def length_tensor(self, device: torch.device = _CPU) -> Tensor:
        """The lengths, int64 of shape [sequences]."""
        return self.once(Offsets.gaps, device=device)

    def owners(self, device: torch.device = _CPU) -> Tensor:
        """For each row the sequence that it is part of, int64 of shape [total]."""
        return self.once(_owners, device=device)

    def positions(self, device: torch.device = _CPU) -> Tensor:
        """For each row its place in its sequence, int64 of shape [total]."""
        return self.once(_positions, device=device)

    def begins(self) -> npt.NDArray[np.int64]:
        """For each row where its sequence begins."""
        return np.repeat(self.array[:-1], self.gaps())

    def through(self, below: Offsets) -> Offsets:
        """These sequences of sequences counted in what the level `below` counts."""
        return Offsets(below.array[self.array])

    def once(
        self,
        make: Callable[..., npt.NDArray[Any]],
        *given: Hashable,
        device: torch.device = _CPU,
    ) -> Tensor:
        """`make(self, *given)` as a tensor that all operators of a step share, and don't write to.

        make: a function that knows nothing but what it is given.
        """
        key = (make, given, device)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = torch.from_numpy(make(self, *given)).to(device)
        return cast(Tensor, found)

    def kept(self, make: Callable[..., M], *given: Hashable) -> M:
        """`make(self, *given)` itself, for all operators of a step, which don't change it."""
        key = (make, given)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make(self, *given)
        return cast(M, found)


def _values(offsets: Offsets) -> npt.NDArray[np.int64]:
    return offsets.array


def _owners(offsets: Offsets) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(len(offsets)), offsets.gaps())


def _positions(offsets: Offsets) -> npt.NDArray[np.int64]:
    return np.arange(offsets.total) - offsets.begins()


Levels = tuple[Offsets, ...]


def as_levels(lod: Sequence[Sequence[int] | Offsets]) -> Levels:
    """A LoD as operators take it; levels that already are stay the same objects."""
    return tuple(one if isinstance(one, Offsets) else Offsets(one) for one in lod)


def as_lod(levels: Levels) -> Lod:
    """A LoD as lists, for users."""
    return [list(level.values) for level in levels]
