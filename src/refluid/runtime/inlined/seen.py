"""What is known of the variables of a plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from refluid.runtime.inlined.lengths import number_of
from refluid.runtime.inlined.sequences import TracedOffsets
from refluid.runtime.inlined.shapes import Sizes, product
from refluid.runtime.trees import Formula, Name


@dataclass(frozen=True)
class SeenTensor:
    """A tensor of a step: its name, its sizes, and what must hold for them to be so."""

    name: Name
    sizes: Sizes
    conditions: tuple[Formula, ...] = ()


@dataclass(frozen=True)
class SeenLevels:
    """Levels of a step likewise."""

    levels: tuple[TracedOffsets, ...]
    conditions: tuple[Formula, ...] = ()


def elements(seen: Iterable[SeenTensor]) -> int:
    """How many elements the tensors have."""
    return sum(number_of(product(one.sizes)) for one in seen)
