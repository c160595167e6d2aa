"""Layers on sequences: rows of a LoDTensor that its last level divides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

__all__ = [
    "sequence_concat",
    "sequence_conv",
    "sequence_enumerate",
    "sequence_expand",
    "sequence_expand_as",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_mask",
    "sequence_pad",
    "sequence_pool",
    "sequence_reshape",
    "sequence_reverse",
    "sequence_scatter",
    "sequence_slice",
    "sequence_softmax",
    "sequence_unpad",
]


def _emit(
    op_type: str,
    name: str | None,
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    **options: Any,
) -> Variable:
    """The layer that is one operator of its own name; `options` as of `LayerHelper.emit`."""
    return LayerHelper(op_type, name=name).emit(op_type, inputs, attrs, **options)


def sequence_conv(
    input: Variable,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: bool = True,
    padding_start: int | None = None,
    bias_attr: Any = None,
    param_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Each row of `input` (n, width) with neighbours, times a filter: (n, num_filters).

    `filter_size` rows from `padding_start` places further on; None: as many before as after.
    Rows outside of the sequence are zero. `filter_stride` must be 1, `padding` has no effect.
    """
    helper = LayerHelper(
        "sequence_conv", bias_attr=bias_attr, param_attr=param_attr, act=act, name=name
    )
    size = [filter_size * input.shape[1], num_filters]
    filters = helper.create_parameter(attr=helper.param_attr, shape=size, dtype=input.dtype)
    attrs = {
        "contextStride": filter_stride,
        "contextStart": -int(filter_size // 2) if padding_start is None else padding_start,
        "contextLength": filter_size,
    }
    inputs = {"X": [input], "Filter": [filters]}
    out = helper.emit("sequence_conv", inputs, attrs)
    return helper.append_activation(helper.append_bias_op(out))


def sequence_softmax(input: Variable, use_cudnn: bool = False, name: str | None = None) -> Variable:
    """Softmax among the rows of each sequence; `input` is (n,) or (n, 1), and so is the result."""
    return _emit("sequence_softmax", name, {"X": input}, {"use_cudnn": use_cudnn})


def sequence_pool(
    input: Variable, pool_type: str, is_test: bool = False, pad_value: float = 0.0
) -> Variable:
    """Each sequence of the last level becomes one row: (n, ...) gives (sequences, ...).

    pool_type: "sum", "average", "sqrt" (sum / sqrt(length)), "max", "first" or "last".
    pad_value: what empty sequences become. The result has the upper levels of `input`.
    """
    helper = LayerHelper("sequence_pool")
    out = helper.create_variable_for_type_inference(input.dtype)
    index = helper.create_variable_for_type_inference(input.dtype)
    attrs = {"pooltype": pool_type.upper(), "is_test": is_test, "pad_value": pad_value}
    more = {"MaxIndex": index}
    helper.emit("sequence_pool", {"X": input}, attrs, out=out, more=more)
    if pool_type == "max":
        index.stop_gradient = True
    return out


def sequence_first_step(input: Variable) -> Variable:
    """The first row of each sequence."""
    return sequence_pool(input=input, pool_type="first")


def sequence_last_step(input: Variable) -> Variable:
    """The last row of each sequence."""
    return sequence_pool(input=input, pool_type="last")


def sequence_concat(input: Sequence[Variable], name: str | None = None) -> Variable:
    """Sequence i of every input, one after another, becomes sequence i."""
    return _emit("sequence_concat", name, {"X": input})


def sequence_slice(
    input: Variable, offset: Variable, length: Variable, name: str | None = None
) -> Variable:
    """Of sequence i `length[i]` rows from row `offset[i]` on; both integers (sequences, 1)."""
    offset.stop_gradient = length.stop_gradient = True
    inputs = {"X": input, "Offset": offset, "Length": length}
    return _emit("sequence_slice", name, inputs)


def sequence_expand(
    x: Variable, y: Variable, ref_level: int = -1, name: str | None = None
) -> Variable:
    """Sequence (or row) i of `x` as many times as sequence i of level `ref_level` of `y` is long.

    x: at most one level. ref_level: -1 for the last.
    """
    return _emit("sequence_expand", name, {"X": x, "Y": y}, {"ref_level": ref_level})


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Row i of `x` as many times as sequence i of `y` is long; the result has y's sequences."""
    return _emit("sequence_expand_as", name, {"X": x, "Y": y})


def sequence_pad(
    x: Variable, pad_value: Variable, maxlen: int | None = None, name: str | None = None
) -> tuple[Variable, Variable]:
    """`x` as (sequences, maxlen, ...) with `pad_value` after each end, and int64 lengths.

    pad_value: (1,), or the shape of a row. maxlen: None for the longest sequence.
    """
    helper = LayerHelper("sequence_pad", name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    length = helper.create_variable_for_type_inference(VarType.INT64)
    pad_value.stop_gradient = length.stop_gradient = True
    attrs = {"padded_length": -1 if maxlen is None else maxlen}
    inputs, more = {"X": x, "PadValue": pad_value}, {"Length": length}
    return helper.emit("sequence_pad", inputs, attrs, out=out, more=more), length


def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """The first `length[i]` elements of every `x[i]` (sequences, longest, ...), as sequences."""
    length.stop_gradient = True
    return _emit("sequence_unpad", name, {"X": x, "Length": length})


def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """The elements of each sequence in rows of `new_dim`; `input` is (n, width)."""
    return _emit("sequence_reshape", None, {"X": [input]}, {"new_dim": new_dim})


def sequence_scatter(
    input: Variable, index: Variable, updates: Variable, name: str | None = None
) -> Variable:
    """`input` with `updates` added, in row i at the places that sequence i of `index` says.

    index: int64 (n, 1); updates: (n, 1), in the sequences of `index`.
    """
    inputs = {"X": input, "Ids": index, "Updates": updates}
    return _emit("sequence_scatter", name, inputs)


def sequence_enumerate(
    input: Variable, win_size: int, pad_value: int = 0, name: str | None = None
) -> Variable:
    """Each number of `input` (n, 1) and those after it: (n, win_size), then `pad_value`."""
    attrs = {"win_size": win_size, "pad_value": pad_value}
    return _emit("sequence_enumerate", name, {"X": input}, attrs, stop_gradient=True)


def sequence_mask(
    x: Variable,
    maxlen: int | Variable | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Variable:
    """For lengths `x` (...) the mask (..., maxlen), 1 before the length and 0 after it.

    maxlen: None for the greatest length, a number, or an int32 variable (1,).
    """
    kind = as_dtype(dtype)
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {"out_dtype": kind}
    if isinstance(maxlen, Variable):
        inputs["MaxLenTensor"] = [maxlen]
    elif maxlen is not None:
        attrs["maxlen"] = maxlen
    options = {"slot": "Y", "dtype": kind, "stop_gradient": True}
    return _emit("sequence_mask", name, inputs, attrs, **options)


def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """The rows of each sequence back to front."""
    return _emit("sequence_reverse", name, {"X": x}, slot="Y")
