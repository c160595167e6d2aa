"""The variables that hold an operator's results: which slots have one, their names and types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol, TypedDict

from refluid.build.backend import Backend, Slots
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.ir.block import Block
from refluid.ir.variable import Variable
from refluid.ops.definition import OperatorDef

# Prefix of variables that nobody named.
UNNAMED = "_generated_var"
_LISTS = (list, tuple)


class LayerCall(Protocol):
    """A layer call: `name` is the prefix of what it makes, `layer_type` what messages call it."""

    @property
    def name(self) -> str: ...
    @property
    def layer_type(self) -> str: ...


class How(TypedDict, total=False):
    """Options of `op`."""

    layer: LayerCall | str
    name: str | None
    prefix: str
    dtype: Any
    out: Variable | None
    stop_gradient: bool | Collection[str]
    block: Block | None


def slots_made(
    definition: OperatorDef | None, inputs: Slots, makes: Iterable[str] | None
) -> dict[str, Any]:
    """Slot -> what is said of its variables: the variable itself, an element type, None, or a list.

    Where nothing is said, every slot that isn't optional or that overwrites an input.
    """
    if isinstance(makes, Mapping):
        return dict(makes)
    if makes is not None or definition is None:
        return dict.fromkeys(makes or ("Out",))
    mutates = definition.mutates
    if not mutates:
        return {slot.name: None for slot in definition.outputs if not slot.optional}
    return {
        slot.name: inputs.get(mutates.get(slot.name, ""))
        for slot in definition.outputs
        if not slot.optional or mutates.get(slot.name) in inputs
    }


def make_results(
    type: str, said: Mapping[str, Any], inputs: Slots, target: Backend, how: How
) -> dict[str, Any]:
    """Slot -> variables: those that are said, new ones of the types that are said."""
    prefix, usual, stop = how.get("prefix"), how.get("dtype"), how.get("stop_gradient", False)
    persistable = None if prefix else False
    if not prefix and target.names_results:
        layer = how.get("layer", type)
        name = how.get("name") if isinstance(layer, str) else layer.name
        prefix = f"{names.generate(str(layer)) if name is None else name}.tmp"
    if usual is None:
        usual = _first_type(inputs)
    made: dict[str, Any] = {}
    for slot, one in said.items():
        several = isinstance(one, _LISTS)
        variables = [
            dtype
            if isinstance(dtype, Variable)
            else target.variable(
                name=names.generate(prefix) if prefix and target.names_results else None,
                dtype=usual if dtype is None else dtype,
                persistable=persistable,
                stop_gradient=stop if isinstance(stop, bool) else slot in stop,
            )
            for dtype in (one if several else (one,))
        ]
        made[slot] = variables if several else variables[0]
    return made


def _first_type(inputs: Slots) -> VarType | None:
    """Element type of the first input that is a variable."""
    for given in inputs.values():
        if isinstance(given, Variable):
            return given.dtype
        for one in given if isinstance(given, _LISTS) else ():
            if isinstance(one, Variable):
                return one.dtype
    return None
