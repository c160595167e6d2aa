"""The recordings of all replicas laid over each other: which value of one is which of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refluid.runtime.printing import text_of
from refluid.runtime.recorded.graph import (
    Differs,
    Kernel,
    Layout,
    Part,
    Value,
    equal,
    replace_together,
)


class Unlike(Exception):
    """These replicas cannot be batched; the message says why."""


@dataclass(frozen=True)
class Aligned:
    """One recording that stands for all: the steps of replica 0, and each value's counterparts."""

    steps: list[Part]
    size: int
    counterparts: dict[Value, tuple[Value, ...]]

    def of(self, value: Value, rank: int) -> Value:
        """The value of replica `rank` that corresponds to one of replica 0."""
        return self.counterparts[value][rank]

    def constant_differs(self, value: Value) -> bool:
        """Whether a constant has other elements in another replica."""
        first, *others = (one.constant for one in self.counterparts[value])
        return any(not equal(first, other) for other in others)


def align(recordings: Sequence[list[Part]]) -> Aligned:
    """Raises Unlike where the replicas did not do the same with the same shapes."""
    if len({len(steps) for steps in recordings}) > 1:
        raise Unlike("the replicas' steps differ in length")
    found: dict[Value, tuple[Value, ...]] = {}

    def match(leaves: tuple[Any, ...]) -> None:
        first = leaves[0]
        if isinstance(first, Value):
            layouts: set[Layout | None] = {leaf.layout for leaf in leaves}
            if found.setdefault(first, leaves) != leaves or len(layouts) > 1:
                raise Unlike("the replicas' values differ in shape")
        elif any(leaf is not first and leaf != first for leaf in leaves):
            raise Unlike("the replicas' steps differ in a number")

    for together in zip(*recordings, strict=True):
        try:
            replace_together([_parts(step) for step in together], match)
        except Differs as error:
            raise Unlike("the replicas' steps differ") from error
    return Aligned(recordings[0], len(recordings), found)


def _parts(step: Part) -> Any:
    if isinstance(step, Kernel):
        return step.func, step.args, step.kwargs, step.outs
    return text_of(step.step), step.loads, step.stores
