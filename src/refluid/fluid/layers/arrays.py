"""Arrays of tensors: what loops write to and read from, one element per round."""

from __future__ import annotations

from typing import Any

from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.layer_helper import LayerHelper, check_variables
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
    helper.append_op(type="write_to_array", inputs={"X": [x], "I": [i]}, outputs={"Out": [array]})
    return array


def array_read(array: Variable, i: Variable) -> Variable:
    """The tensor at place `i`, int64 of shape (1,), of `array`."""
    _require_array("array_read", array)
    helper = LayerHelper("array_read")
    return helper.emit("read_from_array", {"X": [array], "I": [i]})


def array_length(array: Variable) -> Variable:
    """The number of elements of `array`, int64 of shape (1,)."""
    _require_array("array_length", array)
    helper = LayerHelper("array_length")
    return helper.emit("lod_array_length", {"X": [array]}, dtype=VarType.INT64, stop_gradient=True)


def tensor_array_to_tensor(
    input: Variable, axis: int = 1, name: str | None = None, use_stack: bool = False
) -> tuple[Variable, Variable]:
    """(all elements concatenated, or stacked, along `axis`; their sizes there, int32)."""
    _require_array("tensor_array_to_tensor", input)
    helper = LayerHelper("tensor_array_to_tensor", name=name)
    out = helper.create_variable_for_type_inference(input.dtype)
    sizes = helper.create_variable_for_type_inference(VarType.INT32)
    helper.append_op(
        type="tensor_array_to_tensor",
        inputs={"X": input},
        outputs={"Out": [out], "OutIndex": [sizes]},
        attrs={"axis": axis, "use_stack": use_stack},
    )
    return out, sizes


def _require_array(where: str, array: Any) -> None:
    if not isinstance(array, Variable) or array.type != VarType.LOD_TENSOR_ARRAY:
        raise TypeError(f"{where}: {array!r} should be an array (create_array, array_write)")
