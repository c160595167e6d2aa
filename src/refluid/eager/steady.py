"""An update by calls that are prepared for the parameters and states of the last one.

A program of updates reads all of its variables, and its operators look at all of their shapes, to
do the same as a step before on other gradients. Where it is nothing but operators that can be
prepared for what stays (`ops.drafts.steady`), those calls do it as long as the same tensors are in
the same variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, is_
from typing import Any

import torch
from torch import Tensor

from refluid.analysis.batching import batches
from refluid.core import events, flags
from refluid.core.scope import Cell, Scope
from refluid.eager.bodies import options
from refluid.ir.operator import Operator
from refluid.kernels.settings import without_gradients
from refluid.ops.drafts import SteadyStep, find
from refluid.runtime.adaptive import AdaptiveThreads

_value_of = attrgetter("value")


class SteadyUpdate:
    """The calls of a program of updates; none where it can't be done so.

    gradients: the names of the variables that its operators take as gradients. rate: of that with
    the learning rate.
    """

    def __init__(
        self, ops: Sequence[Operator], scope: Scope, gradients: Sequence[str], rate: str
    ) -> None:
        self._flags, self._threads = flags.state(), AdaptiveThreads()
        self._cells: list[Cell] = []
        self._calls = self._prepared(
            ops, scope, {name: n for n, name in enumerate(gradients)}, rate
        )
        self._values = [*map(_value_of, self._cells)]
        self._type = scope.var(rate).value.dtype
        self._rate = self._rounded = 0.0

    def _prepared(
        self, ops: Sequence[Operator], scope: Scope, places: dict[str, int], rate: str
    ) -> list[tuple[SteadyStep, list[int]]]:
        together = batches(ops)
        alone = {*range(len(ops))}.difference(*together.values())
        found = []
        for group in (*together.values(), *([one] for one in alone)):
            made = self._call([ops[n] for n in group], scope, rate)
            grads = [name for n in group for name in ops[n].input("Grad")]
            if made is None or not places.keys() >= {*grads}:
                return []
            found.append((made, [places[name] for name in grads]))
        return found

    def _call(self, ops: Sequence[Operator], scope: Scope, rate: str) -> SteadyStep | None:
        definition = find(ops[0].type)
        if definition is None or definition.steady is None:
            return None
        for op in ops:
            elsewhere = any(op.output(a) != op.input(b) for a, b in definition.mutates.items())
            if elsewhere or op.input("LearningRate") != [rate]:
                return None
        kept: dict[str, list[Any]] = {}
        for slot in definition.inputs:
            if slot.name not in ("Grad", "LearningRate"):
                cells = [scope.var(name) for op in ops for name in op.input(slot.name)]
                self._cells += cells
                kept[slot.name] = [*map(_value_of, cells)]
        if not all(isinstance(one, Tensor) for values in kept.values() for one in values):
            return None
        return definition.steady(kept, **options(definition, ops[0]))

    def can(self) -> bool:
        """Whether the calls would do what the program does; not while operators are watched."""
        return bool(self._calls) and events.active() is None

    def stays(self) -> bool:
        """Whether the variables hold what they held, and flags are as they were."""
        return self._flags == flags.state() and all(
            map(is_, map(_value_of, self._cells), self._values)
        )

    def run(self, gradients: Sequence[Tensor], rate: float) -> None:
        """The update by these gradients, in the order of their names."""
        if rate != self._rate:  # as a variable would hold it
            self._rate, self._rounded = rate, torch.tensor(rate, dtype=self._type).item()
        without_gradients(self._threads.run, self._run, gradients)

    def _run(self, gradients: Sequence[Tensor]) -> None:
        for step, places in self._calls:
            step([gradients[n] for n in places], self._rounded)
