"""Layers on sequences: rows of a LoDTensor that its last level divides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


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
    out = op("sequence_conv", inputs, attrs, layer=helper)
    return helper.append_activation(helper.append_bias_op(out))


def sequence_softmax(input: Variable, use_cudnn: bool = False, name: str | None = None) -> Variable:
    """Softmax among the rows of each sequence; `input` is (n,) or (n, 1), and so is the result."""
    return op("sequence_softmax", {"X": input}, {"use_cudnn": use_cudnn}, name=name)


def sequence_pool(
    input: Variable, pool_type: str, is_test: bool = False, pad_value: float = 0.0
) -> Variable:
    """Each sequence of the last level becomes one row: (n, ...) gives (sequences, ...).

    pool_type: "sum", "average", "sqrt" (sum / sqrt(length)), "max", "first" or "last".
    pad_value: what empty sequences become. The result has the upper levels of `input`.
    """
    attrs = {"pooltype": pool_type.upper(), "is_test": is_test, "pad_value": pad_value}
    stops = ("MaxIndex",) if pool_type == "max" else ()
    return op("sequence_pool", {"X": input}, attrs, stop_gradient=stops)


def sequence_first_step(input: Variable) -> Variable:
    """The first row of each sequence."""
    return sequence_pool(input=input, pool_type="first")


def sequence_last_step(input: Variable) -> Variable:
    """The last row of each sequence."""
    return sequence_pool(input=input, pool_type="last")


def sequence_concat(input: Sequence[Variable], name: str | None = None) -> Variable:
    """Sequence i of every input, one after another, becomes sequence i."""
    return op("sequence_concat", {"X": input}, name=name)


def sequence_slice(
    input: Variable, offset: Variable, length: Variable, name: str | None = None
) -> Variable:
    """Of sequence i `length[i]` rows from row `offset[i]` on; both integers (sequences, 1)."""
    offset.stop_gradient = length.stop_gradient = True
    inputs = {"X": input, "Offset": offset, "Length": length}
    return op("sequence_slice", inputs, name=name)


def sequence_expand(
    x: Variable, y: Variable, ref_level: int = -1, name: str | None = None
) -> Variable:
    """Sequence (or row) i of `x` as many times as sequence i of level `ref_level` of `y` is long.

    x: at most one level. ref_level: -1 for the last.
    """
    return op("sequence_expand", {"X": x, "Y": y}, {"ref_level": ref_level}, name=name)


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Row i of `x` as many times as sequence i of `y` is long; the result has y's sequences."""
    return op("sequence_expand_as", {"X": x, "Y": y}, name=name)


def sequence_pad(
    x: Variable, pad_value: Variable, maxlen: int | None = None, name: str | None = None
) -> tuple[Variable, Variable]:
    """`x` as (sequences, maxlen, ...) with `pad_value` after each end, and int64 lengths.

    pad_value: (1,), or the shape of a row. maxlen: None for the longest sequence.
    """
    pad_value.stop_gradient = True
    inputs, attrs = (
        {"X": x, "PadValue": pad_value},
        {"padded_length": -1 if maxlen is None else maxlen},
    )
    makes = {"Out": x.dtype, "Length": VarType.INT64}
    out, length = op("sequence_pad", inputs, attrs, makes, stop_gradient=("Length",), name=name)
    return out, length


def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """The first `length[i]` elements of every `x[i]` (sequences, longest, ...), as sequences."""
    length.stop_gradient = True
    return op("sequence_unpad", {"X": x, "Length": length}, name=name)


def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """The elements of each sequence in rows of `new_dim`; `input` is (n, width)."""
    return op("sequence_reshape", {"X": [input]}, {"new_dim": new_dim})


def sequence_scatter(
    input: Variable, index: Variable, updates: Variable, name: str | None = None
) -> Variable:
    """`input` with `updates` added, in row i at the places that sequence i of `index` says.

    index: int64 (n, 1); updates: (n, 1), in the sequences of `index`.
    """
    inputs = {"X": input, "Ids": index, "Updates": updates}
    return op("sequence_scatter", inputs, name=name)


def sequence_enumerate(
    input: Variable, win_size: int, pad_value: int = 0, name: str | None = None
) -> Variable:
    """Each number of `input` (n, 1) and those after it: (n, win_size), then `pad_value`."""
    attrs = {"win_size": win_size, "pad_value": pad_value}
    return op("sequence_enumerate", {"X": input}, attrs, stop_gradient=True, name=name)


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
    return op("sequence_mask", inputs, attrs, dtype=kind, stop_gradient=True, name=name)


def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """The rows of each sequence back to front."""
    return op("sequence_reverse", {"X": x}, name=name)
