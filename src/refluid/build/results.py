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


class Layer(Protocol):
    """A layer call: `name` is the prefix of what it makes, `layer_type` what messages call it."""

    @property
    def name(self) -> str: ...
    @property
    def layer_type(self) -> str: ...


class How(TypedDict, total=False):
    """Options of `op`."""

    layer: Layer | str
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
    return {
        slot.name: inputs.get(mutates.get(slot.name, ""))
        for slot in definition.outputs
        if not slot.optional or mutates.get(slot.name) in inputs
    }


class Maker:
    """Makes variables of the results of one operator."""

    def __init__(self, type: str, inputs: Slots, target: Backend, how: How) -> None:
        self._inputs, self._target = inputs, target
        self._dtype, self._stop = how.get("dtype"), how.get("stop_gradient", False)
        self._prefix = how.get("prefix", "")
        self._persistable = None if self._prefix else False
        if not self._prefix:
            layer = how.get("layer", type)
            name = how.get("name") if isinstance(layer, str) else layer.name
            self._prefix = f"{names.generate(str(layer)) if name is None else name}.tmp"

    def __call__(self, slot: str, said: Any) -> Any:
        """The variables of a slot: those that are said, new ones of the types that are said."""
        if isinstance(said, Variable):
            return said
        if isinstance(said, list | tuple):
            return [self(slot, one) for one in said]
        dtype = self._dtype if said is None else said
        return self._target.variable(
            name=names.generate(self._prefix),
            dtype=_first_type(self._inputs) if dtype is None else dtype,
            persistable=self._persistable,
            stop_gradient=self._stop if isinstance(self._stop, bool) else slot in self._stop,
        )


def _first_type(inputs: Slots) -> VarType | None:
    """Element type of the first input that is a variable."""
    for given in inputs.values():
        for one in given if isinstance(given, list | tuple) else [given]:
            if isinstance(one, Variable):
                return one.dtype
    return None
