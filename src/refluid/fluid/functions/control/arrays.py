"""Arrays of tensors: what loops write to and read from, one element per round."""

from __future__ import annotations

from typing import Any

from refluid.build import apply, check_variables, op
from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def create_array(dtype: Any) -> Variable:
    """An empty array for tensors of element type `dtype`."""
    helper = LayerHelper("array")
    return _array(helper, as_dtype(dtype))


def _array(helper: LayerHelper, dtype: VarType) -> Variable:
    return helper.create_variable(
        name=f"{helper.name}.out", type=VarType.LOD_TENSOR_ARRAY, dtype=dtype
    )


def array_write(x: Variable, i: Variable, array: Variable | None = None) -> Variable:
    """Puts `x` at place `i`, int64 of shape (1,), of `array`; of a new one if not given.

    Returns the array. TypeError where `array` is no array.
    """
    check_variables("array_write", {"x": x, "i": i})
    helper = LayerHelper("array_write")
    if array is None:
        array = _array(helper, x.dtype)
    else:
        _require_array("array_write", array)
    apply("write_to_array", {"X": [x], "I": [i]}, {"Out": array})
    return array


def array_read(array: Variable, i: Variable) -> Variable:
    """The tensor at place `i`, int64 of shape (1,), of `array`."""
    _require_array("array_read", array)
    return op("read_from_array", {"X": [array], "I": [i]}, layer="array_read")


def array_length(array: Variable) -> Variable:
    """The number of elements of `array`, int64 of shape (1,)."""
    _require_array("array_length", array)
    return op(
        "lod_array_length",
        {"X": [array]},
        dtype=VarType.INT64,
        stop_gradient=True,
        layer="array_length",
    )


def tensor_array_to_tensor(
    input: Variable, axis: int = 1, name: str | None = None, use_stack: bool = False
) -> tuple[Variable, Variable]:
    """(all elements concatenated, or stacked, along `axis`; their sizes there, int32)."""
    _require_array("tensor_array_to_tensor", input)
    makes = {"Out": input.dtype, "OutIndex": VarType.INT32}
    attrs = {"axis": axis, "use_stack": use_stack}
    out, sizes = op("tensor_array_to_tensor", {"X": input}, attrs, makes, name=name)
    return out, sizes


def _require_array(where: str, array: Any) -> None:
    if not isinstance(array, Variable) or array.type != VarType.LOD_TENSOR_ARRAY:
        raise TypeError(f"{where}: {array!r} should be an array (create_array, array_write)")
