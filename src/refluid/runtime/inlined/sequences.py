"""Levels of a LoD of which it is noted what a body learns of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from refluid.core.offsets import Offsets
from refluid.runtime.inlined.lengths import Length, Met, Unfollowed, negated, number_of, tree_of
from refluid.runtime.trees import Formula, Tree, mapped

_CPU = torch.device("cpu")
# The numbers of a level that bodies compute with.
NUMBERS = ("total", "count", "longest")
# Notes a tensor that is made of a level: the level, what makes it, what that is given, the device.
Derive = Callable[["TracedOffsets", Callable[..., Any], tuple[Any, ...], torch.device], Tensor]


class TracedOffsets(Offsets):
    """A level that stands for `real`, found by `tree`. sizes: its `NUMBERS`.

    What looks at the offsets themselves is refused.
    """

    __slots__ = ("_derive", "_met", "real", "sizes", "tree")

    def __init__(
        self, real: Offsets, tree: Tree, sizes: Mapping[str, Length], met: Met, derive: Derive
    ) -> None:
        self.real, self.tree, self.sizes = real, tree, sizes
        self._met, self._derive = met, derive

    def found_by(self, tree: Tree) -> TracedOffsets:
        """The same level where another expression finds it."""
        return TracedOffsets(self.real, tree, self.sizes, self._met, self._derive)

    def _left(self) -> Any:
        raise Unfollowed("looks at the sequences themselves")

    def __len__(self) -> int:
        raise Unfollowed("counts sequences as a number of Python")

    def __hash__(self) -> int:
        return int(self._left())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TracedOffsets):
            return bool(self._left())
        return self._decided("({} == {})", other.tree, self.real == other.real)

    def _decided(self, form: str, given: Tree, holds: bool) -> bool:
        condition = Formula(form, (self.tree, given))
        self._met(condition if holds else negated(condition))
        return holds

    @property
    def array(self) -> npt.NDArray[np.int64]:  # type: ignore[override]
        found: npt.NDArray[np.int64] = self._left()
        return found

    @property
    def values(self) -> tuple[int, ...]:
        found: tuple[int, ...] = self._left()
        return found

    @property
    def total(self) -> Any:
        return self.sizes["total"]

    @property
    def count(self) -> Any:
        return self.sizes["count"]

    @property
    def longest(self) -> Any:
        return self.sizes["longest"]

    @property
    def some_empty(self) -> bool:
        holds = self.real.some_empty
        found = Formula("{}.some_empty", (self.tree,))
        self._met(found if holds else negated(found))
        return holds

    def all_are(self, length: int) -> bool:
        return self._decided(
            "{}.all_are({})", tree_of(length), self.real.all_are(number_of(length))
        )

    def through(self, _below: Offsets) -> Offsets:
        raise Unfollowed("makes sequences of others")

    def kept(self, *_given: Any) -> Any:
        raise Unfollowed("keeps something with the sequences")

    def once(
        self,
        make: Callable[..., npt.NDArray[Any]],
        *given: Hashable,
        device: torch.device = _CPU,
    ) -> Tensor:
        return self._derive(self, make, given, device)

    def made(
        self, make: Callable[..., Any], given: tuple[Any, ...], device: torch.device
    ) -> Tensor:
        """What `once` gives for the present sizes."""
        return self.real.once(make, *mapped(given, number_of), device=device)
