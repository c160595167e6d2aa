"""What detection layers share: an operator with several results, and numbers given alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refluid.fluid.layer_helper import LayerHelper, check_variables
from refluid.ir.variable import Variable


def append(
    helper: LayerHelper,
    op_type: str,
    inputs: Mapping[str, Variable | None],
    attrs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    *,
    stop_gradient: bool = False,
) -> tuple[Variable, ...]:
    """Appends an operator; a variable per output, given as slot -> element type.

    Inputs and attributes that are None are left out. TypeError for inputs that are no variables.
    """
    given = {slot: one for slot, one in inputs.items() if one is not None}
    check_variables(op_type, given)
    made = {
        slot: helper.create_variable_for_type_inference(dtype, stop_gradient)
        for slot, dtype in outputs.items()
    }
    said = {name: value for name, value in attrs.items() if value is not None}
    helper.append_op(type=op_type, inputs=given, outputs=made, attrs=said)
    return tuple(made.values())


def floats(given: float | Sequence[float]) -> list[float]:
    """A list of floats; a single number is a list of one."""
    return [float(one) for one in ([given] if isinstance(given, int | float) else given)]
