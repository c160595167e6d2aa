"""`fluid.core`: the types that Fluid implements in C++ and that scripts refer to."""

from __future__ import annotations

from refluid.core.dtypes import VarType as _VarType
from refluid.core.errors import EnforceNotMet, EOFException
from refluid.core.places import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    get_cuda_device_count,
    is_compiled_with_cuda,
)
from refluid.core.values import LoDTensor, LoDTensorArray, SelectedRows
from refluid.ir.attributes import AttrType, OpRole
from refluid.runtime.scope import Scope

__all__ = [
    "AttrType",
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "EOFException",
    "EnforceNotMet",
    "LoDTensor",
    "LoDTensorArray",
    "OpRole",
    "Scope",
    "SelectedRows",
    "VarDesc",
    "get_cuda_device_count",
    "is_compiled_with_cuda",
]


class VarDesc:
    """Holds `VarType`, as in Fluid."""

    VarType = _VarType
