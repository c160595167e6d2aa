"""The recordings of all replicas laid over each other: which value of one is which of another."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refluid.runtime.recorded.graph import Kernel, Layout, Step, Value, equal


class Unlike(Exception):
    """These replicas cannot be joined; the message says why."""


@dataclass(frozen=True)
class Joint:
    """One recording that stands for all: the steps of replica 0, and each value's counterparts."""

    steps: list[Step]
    size: int
    counterparts: dict[Value, tuple[Value, ...]]

    def of(self, value: Value, rank: int) -> Value:
        """The value of replica `rank` that corresponds to one of replica 0."""
        return self.counterparts[value][rank]

    def constant_differs(self, value: Value) -> bool:
        """Whether a constant has other elements in another replica."""
        first, *others = (one.constant for one in self.counterparts[value])
        return any(not equal(first, other) for other in others)


def align(recordings: Sequence[list[Step]]) -> Joint:
    """Raises Unlike where the replicas did not do the same with the same shapes."""
    if len({len(steps) for steps in recordings}) > 1:
        raise Unlike("the replicas' steps differ in length")
    found: dict[Value, tuple[Value, ...]] = {}
    for together in zip(*recordings, strict=True):
        _match([_parts(step) for step in together], found)
    return Joint(recordings[0], len(recordings), found)


def _parts(step: Step) -> Any:
    if isinstance(step, Kernel):
        return step.func, step.args, step.kwargs, step.outs
    return ast.dump(step.statement), step.loads, step.stores


def _match(trees: Sequence[Any], found: dict[Value, tuple[Value, ...]]) -> None:
    first = trees[0]
    if any(type(tree) is not type(first) for tree in trees):
        raise Unlike("the replicas' steps differ")
    if isinstance(first, Value):
        layouts: list[Layout | None] = [tree.layout for tree in trees]
        if found.setdefault(first, tuple(trees)) != tuple(trees) or len(set(layouts)) > 1:
            raise Unlike("the replicas' values differ in shape")
    elif isinstance(first, list | tuple | dict):
        if len({len(tree) for tree in trees}) > 1:
            raise Unlike("the replicas' steps differ")
        rows = [tree.values() if isinstance(tree, dict) else tree for tree in trees]
        for together in zip(*rows, strict=True):
            _match(together, found)
    elif any(tree is not first and tree != first for tree in trees):
        raise Unlike("the replicas' steps differ in a number")
