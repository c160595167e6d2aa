"""`op` and `apply`: the operator's inputs checked, results made, and all handed to the backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack, overload

from refluid.build.accepted_types import check_accepted
from refluid.build.backend import MISSED, Attributes, Blocks, Slots, at_once, backend
from refluid.build.results import How, make_results, slots_made
from refluid.ir.at_once import provide
from refluid.ir.block import Block
from refluid.ir.variable import Variable
from refluid.ops.definition import OperatorDef
from refluid.ops.registry import find

_LISTS = (list, tuple)
_NAMED = (Variable, str)


@overload
def op(
    type: str,
    inputs: Slots | None = ...,
    attrs: Attributes = ...,
    makes: None = ...,
    **how: Unpack[How],
) -> Variable: ...
@overload
def op(
    type: str,
    inputs: Slots | None,
    attrs: Attributes,
    makes: Mapping[str, list[Any]],
    **how: Unpack[How],
) -> tuple[list[Variable], ...]: ...
@overload
def op(
    type: str,
    inputs: Slots | None,
    attrs: Attributes,
    makes: tuple[str, ...] | Mapping[str, Any],
    **how: Unpack[How],
) -> tuple[Variable, ...]: ...
def op(
    type: str,
    inputs: Slots | None = None,
    attrs: Attributes = None,
    makes: Iterable[str] | None = None,
    **how: Unpack[How],
) -> Any:
    """Appends an operator, or runs it, and returns the variables of its results.

    inputs: slot -> variable, name or list of them; None for an optional one that isn't used.
    attrs: those that are None, or not given, are the operator's defaults.
    makes: the output slots, in the order in which variables are made: a tuple, or slot -> element
        type, variable to write to, or list of such; the variables of all are returned. Without it
        there is one for every slot that isn't optional (for one that overwrites an input, that
        input), and the first is returned.
    layer: the layer call (a LayerHelper) or only its kind; the operator's type unless given.
    name: what the user called the layer. prefix: of the names of results, instead of `NAME.tmp`.
    dtype: of results of which neither `makes` nor shape inference says it; that of the first
        input unless given. out: the variable to which the first result is written.
    stop_gradient: whether results stop gradients, or which slots of them do.
    block: where to append the operator; without one it goes to the current backend.

    Raises TypeError for inputs that are no variables, or of types that the layer doesn't accept.
    """
    block, target = how.get("block"), backend()
    if block is None:
        found = target.direct(type, inputs, attrs, makes, how)
        if found is not MISSED:
            return found
    definition, layer = find(type), how.get("layer", type)
    given = inputs if inputs is None else _used(type, definition, inputs)
    known = {} if given is None else given
    check_accepted(layer if isinstance(layer, str) else layer.layer_type, known)
    out = how.get("out")
    target = target if block is None else target.at(block)
    said = slots_made(definition, known, makes)
    if out is not None:
        said[next(iter(said))] = out
    results = make_results(type, said, known, target, how)
    target.run(type, given, results, attrs)
    return next(iter(results.values())) if makes is None else tuple(results.values())


def apply(
    type: str,
    inputs: Slots | None = None,
    outputs: Slots | None = None,
    attrs: Attributes = None,
    *,
    block: Block | None = None,
    index: int | None = None,
) -> Any:
    """Appends an operator that writes to variables at hand, or runs it; returns the operator.

    outputs: may leave out slots that overwrite an input. index: its position in `block`, the end
    unless given. Others as of `op`.
    """
    definition = find(type)
    given = inputs if inputs is None else _used(type, definition, inputs)
    known = {} if given is None else given
    mutates = {} if definition is None else definition.mutates
    changed = {slot: known[own] for slot, own in mutates.items() if own in known}
    target = backend() if block is None else Blocks(block, index)
    return target.run(type, given, {**changed, **(outputs or {})}, attrs)


def run_at_once(
    type: str,
    inputs: Slots | None = None,
    outputs: Slots | None = None,
    attrs: Attributes = None,
    stop_gradient: bool = False,
) -> None:
    """Runs an operator that a script appends; its results may stop gradients."""
    apply(type, inputs, outputs, attrs)
    for given in (outputs or {}).values() if stop_gradient else ():
        for one in given if isinstance(given, _LISTS) else (given,):
            one.stop_gradient = True


provide(lambda: run_at_once if at_once() else None)


def check_variables(where: str, inputs: Slots) -> None:
    """TypeError, naming operator and slot, for an input that is no variable."""
    for slot, given in inputs.items():
        if isinstance(given, _NAMED):
            continue
        for one in given if isinstance(given, _LISTS) else (given,):
            if not isinstance(one, _NAMED):
                raise TypeError(
                    f"The type of '{slot}' in {where} must be Variable, but received "
                    f"{type(one).__name__}: {one!r}"
                )


def _used(type: str, definition: OperatorDef | None, inputs: Slots) -> Slots:
    """The inputs without optional ones that are None, checked."""
    for given in inputs.values():
        if given is None and definition is not None:
            spare = {slot.name for slot in definition.inputs if slot.optional}
            some = inputs.items()
            inputs = {slot: one for slot, one in some if one is not None or slot not in spare}
            break
    check_variables(type, inputs)
    return inputs
