"""The element types that layers accept, where Fluid's layers refuse others by a TypeError.

Most layers leave that to their operator ([element_types](../ops/element_types.py)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from refluid.core.dtypes import VarType, dtype_name
from refluid.ir.variable import Variable

_FLOATS = ("float32", "float64")
_HALF = ("float16", *_FLOATS)
_NUMBERS = (*_FLOATS, "int32", "int64")
_WHOLE = ("int32", "int64")
_HALF_UNARY = """
    acos asin atan brelu ceil cos dropout elu floor hard_shrink hard_sigmoid hard_swish leaky_relu
    logsigmoid matmul mean prelu reciprocal relu relu6 round rsqrt sigmoid sign sin soft_relu
    softplus softshrink softsign sqrt stanh swish tanh tanh_shrink thresholded_relu
"""
_FLOAT_UNARY = "log log1p maxout mish pixel_shuffle selu temporal_shift unfold"
_COMPARISONS = "equal greater_equal greater_than less_equal less_than not_equal"


# What Fluid has none of: the operator decides.
_SINCE = ("bfloat16", "complex64", "complex128")


class Accepted(NamedTuple):
    """What one input slot of a layer accepts; `argument` is the name that users know."""

    slot: str
    argument: str
    types: Sequence[str]


ACCEPTED: dict[str, Accepted] = {
    **dict.fromkeys(_HALF_UNARY.split(), Accepted("X", "x", _HALF)),
    **dict.fromkeys(_FLOAT_UNARY.split(), Accepted("X", "x", _FLOATS)),
    **dict.fromkeys(_COMPARISONS.split(), Accepted("X", "x", _NUMBERS)),
    **dict.fromkeys(("batch_norm", "fc"), Accepted("X", "input", _HALF)),
    **dict.fromkeys(("log_softmax", "softmax"), Accepted("X", "input", _HALF)),
    **dict.fromkeys(
        (
            "hierarchical_sigmoid",
            "instance_norm",
            "layer_norm",
            "sequence_conv",
            "sequence_pool",
            "sequence_softmax",
            "square_error_cost",
        ),
        Accepted("X", "input", _FLOATS),
    ),
    **dict.fromkeys(
        ("one_hot", "one_hot_v2", "sequence_enumerate", "shard_index"),
        Accepted("X", "input", _WHOLE),
    ),
    "auc": Accepted("Predict", "input", _FLOATS),
    "conv2d": Accepted("Input", "input", _HALF),
    "embedding": Accepted("Ids", "input", ("int64",)),
    "label_smooth": Accepted("X", "label", _FLOATS),
    "log_loss": Accepted("Predicted", "input", ("float32",)),
    "row_conv": Accepted("X", "input", ("float32",)),
}


def check_accepted(layer: str, inputs: Mapping[str, Any]) -> None:
    """TypeError where `layer` is given a variable of a type that it doesn't accept."""
    accepted = ACCEPTED.get(layer)
    if accepted is None:
        return
    given = inputs.get(accepted.slot)
    for one in given if isinstance(given, list | tuple) else [given]:
        if isinstance(one, Variable):
            _check(layer, accepted, one.dtype)


def check_parameter(layer: str, dtype: VarType) -> None:
    """The same before `layer` makes a parameter of its input's type."""
    accepted = ACCEPTED.get(layer)
    if accepted is not None and "float32" in accepted.types:
        _check(layer, accepted, dtype)


def _check(layer: str, accepted: Accepted, dtype: VarType) -> None:
    if dtype_name(dtype) not in (*accepted.types, *_SINCE):
        raise TypeError(
            f"The data type of '{accepted.argument}' in {layer} must be "
            f"{list(accepted.types)}, but received {dtype_name(dtype)}."
        )
