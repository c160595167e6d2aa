"""NumPy arrays in a program: the values of `assign_value`."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.build.operators import op
from refluid.core.dtypes import VarType, as_dtype, dtype_name
from refluid.ir.variable import Variable

_FIELD = {
    VarType.BOOL: ("bool_values", np.dtype(bool), VarType.BOOL),
    VarType.FP16: ("fp32_values", np.dtype("float32"), VarType.FP32),
    VarType.FP32: ("fp32_values", np.dtype("float32"), VarType.FP32),
    VarType.FP64: ("fp32_values", np.dtype("float32"), VarType.FP32),
    VarType.INT32: ("int32_values", np.dtype("int32"), VarType.INT32),
    VarType.INT64: ("int64_values", np.dtype("int64"), VarType.INT64),
}
_LIMIT = 2**30


def value_attributes(value: np.ndarray[Any, Any], dtype: VarType) -> dict[str, Any]:
    """The attributes `dtype` and `..._values` that hold an array as element type `dtype`.

    Floats are kept in single precision. TypeError for types that attributes can't hold,
    ValueError above 2**30 elements.
    """
    if dtype not in _FIELD:
        raise TypeError(
            f"a program can't hold {dtype_name(dtype)} arrays; cast it to "
            + ", ".join(dtype_name(kind) for kind in _FIELD)
        )
    if value.size > _LIMIT:
        raise ValueError(
            f"an array of {value.size} elements is too large for a program; load it from a file"
        )
    field, kind, stored = _FIELD[dtype]
    return {"dtype": int(stored), field: value.astype(kind).ravel().tolist()}


def assign_value(
    value: np.ndarray[Any, Any], out: Variable | None = None, layer: Any = "assign"
) -> Variable:
    """An array as a constant of the program, in a new variable or `out`. float64 becomes float32.

    Complex numbers are made of two constants. layer: as of `op`. Raises as `value_attributes`.
    """
    if value.dtype.kind == "c":
        parts = {"X": assign_value(value.real), "Y": assign_value(value.imag)}
        return op("complex", parts, out=out, layer=layer)
    attrs = value_attributes(value, as_dtype(value.dtype)) | {"shape": list(value.shape)}
    return op("assign_value", {}, attrs, dtype=VarType(attrs["dtype"]), out=out, layer=layer)
