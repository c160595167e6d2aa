"""Recordings of one plan for different sizes become one that stands for all sizes between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from refluid.runtime.recorded.graph import (
    Differs,
    Kernel,
    Line,
    Step,
    Value,
    equal,
    replace_together,
)
from refluid.runtime.recorded.record import Recording, Refused
from refluid.runtime.recorded.sizes import Sizes


def merge(recordings: Sequence[Recording], sizes: Sizes) -> Recording:
    """The first recording, with sizes in the place of numbers that differ from the others'.

    Raises Refused where the recordings differ in anything else.
    """
    return _Merge(sizes).merged(recordings)


class _Merge:
    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._seen: dict[Value, tuple[tuple[Value, ...], Value]] = {}

    def merged(self, recordings: Sequence[Recording]) -> Recording:
        if len({len(one.steps) for one in recordings}) > 1:
            raise Refused("it does not the same for all sizes")
        steps = zip(*(one.steps for one in recordings), strict=True)
        merged = [self._step(together) for together in steps]
        names = self._tree([one.names for one in recordings])
        return Recording(merged, names, recordings[0].refused)

    def _step(self, together: Sequence[Step]) -> Step:
        first = together[0]
        if isinstance(first, Kernel):
            kernels = [one for one in together if isinstance(one, Kernel)]
            if len(kernels) == len(together) and all(one.func is first.func for one in kernels):
                args, kwargs, outs = self._tree([(k.args, k.kwargs, k.outs) for k in kernels])
                return replace(first, args=args, kwargs=kwargs, outs=outs)
        else:
            lines = [one for one in together if isinstance(one, Line)]
            places = {one.statement.lineno for one in lines}
            if len(lines) == len(together) and len(places) == 1:
                loads, stores = self._tree([(line.loads, line.stores) for line in lines])
                return Line(first.statement, loads, stores, first.op)
        raise Refused("it does not the same for all sizes")

    def _tree(self, trees: Sequence[Any]) -> Any:
        try:
            return replace_together(trees, self._leaf)
        except Differs as error:
            raise Refused("it does not the same for all sizes") from error

    def _leaf(self, leaves: tuple[Any, ...]) -> Any:
        first = leaves[0]
        if isinstance(first, Value):
            return self._value(leaves)
        if all(leaf is first or leaf == first for leaf in leaves):
            return first
        if isinstance(first, int | float) and not isinstance(first, bool):
            return self._sizes.follow(leaves)
        raise Refused("an argument follows from the sizes")

    def _value(self, values: tuple[Value, ...]) -> Value:
        """A copy of the first: what is found out about it holds for the merged recording only."""
        first = values[0]
        if first not in self._seen:
            if not all(equal(first.constant, other.constant) for other in values):
                raise Refused("a constant follows from the sizes")
            self._seen[first] = values, replace(first)
        known, copy = self._seen[first]
        if known != values:
            raise Refused("it does not the same for all sizes")
        return copy
