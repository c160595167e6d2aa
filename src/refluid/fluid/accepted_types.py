"""The element types that layers accept, where Fluid's layers refuse others by a TypeError.

Most layers leave that to their operator ([element_types](../ops/element_types.py)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from refluid.core.dtypes import dtype_name
from refluid.ir.variable import Variable

_FLOATS = ("float32", "float64")
_HALF = ("float16", *_FLOATS)
_NUMBERS = (*_FLOATS, "int32", "int64")
_HALF_UNARY = """
    acos asin atan brelu ceil cos elu floor hard_shrink hard_sigmoid hard_swish leaky_relu
    logsigmoid mean reciprocal relu relu6 round rsqrt sigmoid sign sin soft_relu softplus
    softshrink softsign sqrt stanh swish tanh tanh_shrink thresholded_relu
"""


class Accepted(NamedTuple):
    """What one input slot of a layer accepts; `argument` is the name that users know."""

    slot: str
    argument: str
    types: Sequence[str]


ACCEPTED: dict[str, Accepted] = {
    **dict.fromkeys(_HALF_UNARY.split(), Accepted("X", "x", _HALF)),
    **dict.fromkeys(("log", "log1p", "mish", "selu"), Accepted("X", "x", _FLOATS)),
    **dict.fromkeys(("log_softmax", "softmax"), Accepted("X", "input", _HALF)),
    **dict.fromkeys(
        (
            "equal",
            "greater_equal",
            "greater_than",
            "less_equal",
            "less_than",
            "not_equal",
        ),
        Accepted("X", "x", _NUMBERS),
    ),
}


def check_accepted(layer: str, inputs: Mapping[str, Any]) -> None:
    """TypeError where `layer` is given a variable of a type that it doesn't accept."""
    accepted = ACCEPTED.get(layer)
    if accepted is None:
        return
    given = inputs.get(accepted.slot)
    for one in given if isinstance(given, list | tuple) else [given]:
        if isinstance(one, Variable) and dtype_name(one.dtype) not in (*accepted.types, "bfloat16"):
            raise TypeError(
                f"The data type of '{accepted.argument}' in {layer} must be "
                f"{list(accepted.types)}, but received {dtype_name(one.dtype)}."
            )
