"""`core.ops`: operators that run at once, by type: `core.ops.matmul(x, y, "transpose_Y", True)`.

Inputs come first, in the order of the operator's slots. Then, of outputs that overwrite an input
the variable, of those of any number how many: `core.ops.split(x, 3, "axis", 1)`; or a variable for
each output: `core.ops.matmul(x, y, out)`. Attributes follow as names and values in turn. Given back
is the variable of the output, a list of one of any number, a tuple of several outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from refluid.build import op
from refluid.core.errors import EnforceNotMet
from refluid.ir.schema import Slot
from refluid.ops.definition import OperatorDef
from refluid.ops.registry import find


class OperatorsByType:
    """Functions by the types of operators."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        definition = None if name.startswith("_") else find(name)
        if definition is None:
            raise AttributeError(f"core.ops: there is no operator {name!r}")

        def call(*given: Any) -> Any:
            return _call(definition, given)

        call.__name__, call.__doc__ = name, definition.doc
        setattr(self, name, call)
        return call


def _call(definition: OperatorDef, given: Sequence[Any]) -> Any:
    first = next((n for n, one in enumerate(given) if isinstance(one, str)), len(given))
    values, rest = given[:first], given[first:]
    if len(rest) % 2:
        raise EnforceNotMet(f"core.ops.{definition.type}: attribute {rest[-1]!r} has no value")
    slots = _slots(definition, values)
    inputs = {slot.name: value for slot, value in zip(slots, values, strict=False)}
    attrs = dict(zip(rest[::2], rest[1::2], strict=True))
    made = op(definition.type, inputs, attrs, _made(definition, inputs, values[len(slots) :]))
    return made[0] if len(made) == 1 else made


def _slots(definition: OperatorDef, values: Sequence[Any]) -> Sequence[Slot]:
    """The input slots that the first values are for: those that aren't optional, or all."""
    needed = [slot for slot in definition.inputs if not slot.optional]
    more = values[len(needed) :]
    are_outputs = len(more) == len(definition.mutates) or (more and isinstance(more[0], int))
    return needed if are_outputs or not more else definition.inputs[: len(values)]


def _made(
    definition: OperatorDef, inputs: Mapping[str, Any], given: Sequence[Any]
) -> dict[str, Any]:
    """Output slot -> what is known of its variables: those that it overwrites, or how many."""
    slots = [
        slot
        for slot in definition.outputs
        if not slot.optional or definition.mutates.get(slot.name) in inputs
    ]
    made = {slot.name: inputs.get(definition.mutates.get(slot.name, "")) for slot in slots}
    known = [slot.name for slot in slots if slot.many or slot.name in definition.mutates]
    if len(given) > len(known):
        known = [slot.name for slot in slots]
    for name, one in zip(known, given, strict=False):
        made[name] = [None] * one if isinstance(one, int) else one
    return made


ops = OperatorsByType()
