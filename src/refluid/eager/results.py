"""The variables of what a body returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from refluid.build.results import slots_made
from refluid.eager.apart import detached
from refluid.eager.live import live
from refluid.eager.tensor import VarBase
from refluid.ir.variable import Variable
from refluid.ops.definition import OperatorDef

# A value for each slot that was given: a tensor, a list of them, or None.
SlotValues = Sequence[Any]
Run = Callable[[SlotValues, Any], Any]
_LISTS = (list, tuple)


@dataclass(frozen=True)
class Asked:
    """How an operator was called, but for its tensors; `makes` and `stops` as of `build.op`.

    given: slot -> how many variables in a list, -1 for a single one, None for none.
    takes: whether gradients are to reach its inputs.
    """

    given: Sequence[tuple[str, int | None]]
    makes: Any
    stops: Any
    takes: bool


class ResultVariables:
    """Makes variables of what the body of an operator returns.

    apart: slots whose values pass no gradient on. watched: whether the others may take one.
    """

    def __init__(
        self, definition: OperatorDef, asked: Asked, apart: frozenset[str], watched: bool
    ) -> None:
        self._outputs, self._apart, self._watched = definition.outputs, apart, watched
        names = [slot.name for slot in definition.outputs]
        given = dict.fromkeys(slot for slot, _ in asked.given)
        said = slots_made(definition, given, asked.makes)
        self._stopped = frozenset(names if asked.stops is True else asked.stops or ())
        self._steps = [(names.index(slot), slot, _kind(one)) for slot, one in said.items()]
        self._alone = len(names) == 1
        self._one = self._alone and asked.makes is None and not definition.outputs[0].many

    def of(self, compute: Callable[..., Any]) -> Run:
        """What a call gives, of values by slot and of what `makes` says of its results."""
        if not self._one:
            return lambda values, makes: self._several(compute(*values), makes)
        if self._stopped or (self._watched and self._apart):
            slot = self._outputs[0].name
            return lambda values, _: self._made(compute(*values), slot)
        new, note = VarBase.__new__, live.add if self._watched else None

        def plain(values: SlotValues, _: Any) -> Any:
            one = new(VarBase)
            one._value = compute(*values)
            if note is not None:
                note(one)
            return one

        return plain

    def _made(self, value: Any, slot: str) -> VarBase:
        one = VarBase.__new__(VarBase)
        if slot in self._apart:
            value = detached(value)
        if slot in self._stopped:
            one._stops = True
        one._value = value
        if self._watched and isinstance(value, Tensor) and value.requires_grad:
            live.add(one)
        return one

    def _several(self, result: Any, makes: Any) -> Any:
        parts = (result,) if self._alone else result
        found: list[Any] = []
        for index, slot, kind in self._steps:
            part, many = parts[index], self._outputs[index].many
            if kind == "list":
                found.append([self._made(one, slot) for one in (part if many else (part,))])
            elif kind == "var":
                found.append(_set(makes[slot], part))
            else:
                found.append(self._made(part[0] if many else part, slot))
        return found[0] if makes is None else tuple(found)


def _set(var: VarBase, value: Any) -> VarBase:
    if value is not var._value:
        var.held = value
    return var


def _kind(said: Any) -> str:
    """What is said of a slot's results: `list`, `var` for one that is there, nothing."""
    return "list" if isinstance(said, _LISTS) else "var" if isinstance(said, Variable) else ""
