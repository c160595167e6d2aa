"""Data types: Fluid's `VarType` numbers and their NumPy and torch counterparts.

The numbers are those of `VarType.Type` in program files, so they may be written as they are.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import torch


class VarType(IntEnum):
    """Kinds of variables and element types (`fluid.core.VarDesc.VarType`)."""

    BOOL = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    FP16 = 4
    FP32 = 5
    FP64 = 6
    LOD_TENSOR = 7
    SELECTED_ROWS = 8
    FEED_MINIBATCH = 9
    FETCH_LIST = 10
    STEP_SCOPES = 11
    LOD_RANK_TABLE = 12
    LOD_TENSOR_ARRAY = 13
    PLACE_LIST = 14
    READER = 15
    RAW = 17
    TUPLE = 18
    SIZE_T = 19
    UINT8 = 20
    INT8 = 21
    BF16 = 22
    COMPLEX64 = 23
    COMPLEX128 = 24

    def __str__(self) -> str:
        return f"VarType.{self.name}"

    __repr__ = __str__


_TABLE: list[tuple[VarType, str, torch.dtype]] = [
    (VarType.BOOL, "bool", torch.bool),
    (VarType.INT8, "int8", torch.int8),
    (VarType.UINT8, "uint8", torch.uint8),
    (VarType.INT16, "int16", torch.int16),
    (VarType.INT32, "int32", torch.int32),
    (VarType.INT64, "int64", torch.int64),
    (VarType.FP16, "float16", torch.float16),
    (VarType.BF16, "bfloat16", torch.bfloat16),
    (VarType.FP32, "float32", torch.float32),
    (VarType.FP64, "float64", torch.float64),
    (VarType.COMPLEX64, "complex64", torch.complex64),
    (VarType.COMPLEX128, "complex128", torch.complex128),
]
_NAME = {kind: name for kind, name, _ in _TABLE}
_TORCH = {kind: dtype for kind, _, dtype in _TABLE}
_BY_NAME = {name: kind for kind, name, _ in _TABLE}
_BY_TORCH = {dtype: kind for kind, _, dtype in _TABLE}
FLOATING = frozenset({VarType.FP16, VarType.BF16, VarType.FP32, VarType.FP64})
COMPLEX = frozenset({VarType.COMPLEX64, VarType.COMPLEX128})
DIFFERENTIABLE = FLOATING | COMPLEX


def as_dtype(spec: Any) -> VarType:
    """The `VarType` of an element type given as VarType, number, name, NumPy or torch dtype.

    Raises TypeError for anything that is no tensor element type.
    """
    if isinstance(spec, torch.dtype):
        kind = _BY_TORCH.get(spec)
    elif isinstance(spec, int) and not isinstance(spec, bool):
        kind = VarType(spec)
        kind = kind if kind in _NAME else None
    elif isinstance(spec, str) and spec in _BY_NAME:
        kind = _BY_NAME[spec]
    else:
        kind = _BY_NAME.get(np.dtype(spec).name)
    if kind is None:
        raise TypeError(f"{spec!r} is not an element type; use one of {', '.join(_BY_NAME)}")
    return kind


def is_known(dtype: torch.dtype) -> bool:
    """Whether tensors of Fluid have this element type of torch's."""
    return dtype in _BY_TORCH


def is_element(kind: VarType) -> bool:
    """Whether tensors can have this element type (`LOD_TENSOR` and the like are none)."""
    return kind in _NAME


def dtype_name(kind: VarType) -> str:
    """The NumPy-style name of an element type, such as `float32`."""
    return _NAME[VarType(kind)]


def to_numpy(kind: VarType) -> np.dtype[Any]:
    """The NumPy dtype of an element type (bfloat16 has none: TypeError)."""
    if kind == VarType.BF16:
        raise TypeError("NumPy has no bfloat16; cast the tensor to float32 first")
    return np.dtype(_NAME[VarType(kind)])


def to_torch(kind: VarType) -> torch.dtype:
    """The torch dtype of an element type."""
    return _TORCH[VarType(kind)]
