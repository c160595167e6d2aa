"""Updates of several parameters, by a call prepared for what stays from step to step.

An optimizer's operators look at shape and layout of every tensor, and make tensors of a few numbers
to read them. Of parameters and states that a step finds where the last one left them, all this is
known already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import is_
from typing import Any

from torch import Tensor

from refluid.analysis.batching import has_rows
from refluid.core import flags
from refluid.ir.operator import Operator
from refluid.ops.drafts import Prepare, PrepareRows
from refluid.ops.registry import OperatorDef

# What a prepared call is given; whatever else an operator takes, stays.
_GRADIENT, _RATE = "Grad", "LearningRate"


class KnownUpdates:
    """In the stead of `OperatorDef.many`, for one place of a plan: the same numbers, sooner.

    slots: the operator's inputs, in order. rate: gives what a prepared call takes, of the learning
    rates of all parameters.
    """

    def __init__(
        self,
        many: Callable[..., None],
        prepare: Prepare | PrepareRows,
        slots: Sequence[str],
        rate: Callable[[list[Tensor]], Any],
    ) -> None:
        self._many, self._prepare, self._rate_of = many, prepare, rate
        self._gradient, self._rate = slots.index(_GRADIENT), slots.index(_RATE)
        self._stay = [n for n, name in enumerate(slots) if name not in (_GRADIENT, _RATE)]
        self._names = [slots[n] for n in self._stay]
        self._known: list[Tensor] = []
        self._came_again = False
        self._step: Callable[..., bool | None] | None = None

    def __call__(self, *lists: list[Any], **options: Any) -> None:
        staying = [lists[n] for n in self._stay]
        values = [*chain.from_iterable(staying)]
        if len(values) != len(self._known) or not all(map(is_, values, self._known)):
            self._known, self._came_again, self._step = values, False, None
        elif not self._came_again:
            self._came_again = True
            kept = dict(zip(self._names, staying, strict=True))
            self._step = self._prepare(kept, **options)
        step = self._step
        if step is None or step(lists[self._gradient], self._rate_of(lists[self._rate])) is False:
            self._many(*lists, **options)


def updates_of(definition: OperatorDef, ops: Sequence[Operator]) -> Callable[..., None]:
    """What does the updates of these operators at once, which are of one type and setting."""
    assert definition.many is not None
    if not flags.value("refluid_known_updates"):
        return definition.many
    slots = [slot.name for slot in definition.inputs]
    if has_rows(ops[0]):
        if definition.steady_rows is None:
            return definition.many
        return KnownUpdates(definition.many, definition.steady_rows, slots, list)
    if definition.steady is None or len({name for op in ops for name in op.input(_RATE)}) != 1:
        return definition.many
    return KnownUpdates(definition.many, definition.steady, slots, _number)


def _number(rates: list[Tensor]) -> float:
    return rates[0].item()
