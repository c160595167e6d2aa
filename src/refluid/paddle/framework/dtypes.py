"""Element types by their names, and the one that is meant where none is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.core.dtypes import COMPLEX, FLOATING, VarType, as_dtype, dtype_name, to_torch

dtype = VarType
bool = VarType.BOOL
uint8, int8, int16 = VarType.UINT8, VarType.INT8, VarType.INT16
int32, int64 = VarType.INT32, VarType.INT64
float16, bfloat16 = VarType.FP16, VarType.BF16
float32, float64 = VarType.FP32, VarType.FP64
complex64, complex128 = VarType.COMPLEX64, VarType.COMPLEX128

_default = VarType.FP32


def get_default_dtype() -> str:
    """The name of the element type that numbers have where none is given."""
    return dtype_name(_default)


def set_default_dtype(d: Any) -> None:
    """Has numbers be of this floating-point type where none is given; TypeError for others."""
    global _default
    kind = as_dtype(d)
    if kind not in FLOATING:
        raise TypeError(
            "set_default_dtype only supports [float16, float32, float64, bfloat16], "
            f"but received {dtype_name(kind)}"
        )
    _default = kind


def usual(given: Any) -> VarType:
    """An element type, the default one where None."""
    return _default if given is None else as_dtype(given)


def type_of(value: Any) -> VarType:
    """The element type of numbers of Python's, lists of them, or an array."""
    kind = np.asarray(value).dtype
    is_python = not isinstance(value, np.ndarray | np.generic)
    if is_python and kind == np.complex128:
        return VarType.COMPLEX128 if _default == VarType.FP64 else VarType.COMPLEX64
    return _default if is_python and kind == np.float64 else as_dtype(kind)


def is_floating_point(x: Any) -> Any:
    """Whether a variable's elements are floating-point numbers."""
    return as_dtype(x.dtype) in FLOATING


def is_integer(x: Any) -> Any:
    """Whether a variable's elements are whole numbers."""
    return as_dtype(x.dtype) not in FLOATING | COMPLEX | {VarType.BOOL}


def is_complex(x: Any) -> Any:
    """Whether a variable's elements are complex numbers."""
    return as_dtype(x.dtype) in COMPLEX


def iinfo(dtype: Any) -> Any:
    """The limits of a type of whole numbers: `min`, `max`, `bits`."""
    import torch

    return torch.iinfo(to_torch(as_dtype(dtype)))


def finfo(dtype: Any) -> Any:
    """The limits of a floating-point type: `min`, `max`, `eps`, `tiny`, `bits`."""
    import torch

    return torch.finfo(to_torch(as_dtype(dtype)))
