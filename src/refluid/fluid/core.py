"""`fluid.core`: the types that Fluid implements in C++ and that scripts refer to."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, MutableMapping
from enum import IntEnum
from typing import Any

import torch

from refluid.core import flags
from refluid.core.dtypes import VarType as _VarType
from refluid.core.dtypes import to_torch
from refluid.core.errors import EnforceNotMet, EOFException
from refluid.core.flag_table import FLAGS
from refluid.core.places import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    CustomPlace,
    IPUPlace,
    MLUPlace,
    NPUPlace,
    Place,
    XPUPlace,
    get_cuda_device_count,
    is_compiled_with,
    is_compiled_with_cuda,
)
from refluid.core.scope import Scope
from refluid.core.values import LoDTensor, LoDTensorArray, SelectedRows
from refluid.core.values import from_dlpack as from_dlpack
from refluid.fluid.graphs.descriptions import BlockDesc, OpDesc, ProgramDesc, VarDesc
from refluid.fluid.graphs.operator_protos import operator_defaults, operator_proto, operator_types
from refluid.ir.attributes import CALLSTACK, DEVICE, NAMESCOPE, ROLE, ROLE_VAR, AttrType
from refluid.ir.attributes import OpRole as _Role
from refluid.ir.names import EMPTY as _EMPTY
from refluid.ir.names import GRAD as _GRAD

__all__ = [
    "AttrType",
    "BlockDesc",
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "CustomPlace",
    "EOFException",
    "EnforceNotMet",
    "IPUPlace",
    "LoDTensor",
    "LoDTensorArray",
    "MLUPlace",
    "NPUPlace",
    "OpDesc",
    "Place",
    "ProgramDesc",
    "Scope",
    "SelectedRows",
    "Tensor",
    "VarDesc",
    "XPUPlace",
    "empty_var_name",
    "get_all_op_protos",
    "get_cuda_device_count",
    "get_op_attrs_default_value",
    "get_variable_tensor",
    "globals",
    "grad_var_suffix",
    "is_compiled_with_brpc",
    "is_compiled_with_cuda",
    "is_compiled_with_custom_device",
    "is_compiled_with_dist",
    "is_compiled_with_ipu",
    "is_compiled_with_mkldnn",
    "is_compiled_with_mlu",
    "is_compiled_with_npu",
    "is_compiled_with_xpu",
    "kControlDepVarName",
    "kEmptyVarName",
    "kGradVarSuffix",
    "kNewGradSuffix",
    "kTempVarName",
    "kZeroVarSuffix",
    "loaded_var_suffix",
    "op_proto_and_checker_maker",
    "set_num_threads",
    "size_of_dtype",
]

_INFERENCE = {
    "config": ("AnalysisConfig",),
    "native": ("NativeConfig",),
    "quantizing": ("MkldnnQuantizerConfig",),
    "passes": ("CpuPassStrategy", "GpuPassStrategy", "PaddlePassBuilder", "PassStrategy"),
    "predictor": (
        *("AnalysisPredictor", "NativePaddlePredictor", "PaddlePredictor"),
        "create_paddle_predictor",
    ),
    "tensors": ("PaddleBuf", "PaddleDType", "PaddleTensor", "paddle_dtype_size"),
    "zero_copy": ("ZeroCopyTensor",),
}
# Names that few programs use, and the modules that they are imported from at their first use.
_LATE = {
    name: f"refluid.fluid.inference.{module}"
    for module, names in _INFERENCE.items()
    for name in names
} | {"VarBase": "refluid.eager.tensor", "ops": "refluid.eager.by_type"}
_LATE |= dict.fromkeys(("BackwardStrategy", "Layer"), "refluid.fluid.dygraph")
_LATE["save_op_compatible_info"] = "refluid.fluid.graphs.operator_versions"


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    return sorted({*vars(sys.modules[__name__]), *_LATE})  # `globals` is Fluid's here


Tensor = LoDTensor


def kEmptyVarName() -> str:
    """The name that stands for no variable in an operator's slots."""
    return _EMPTY


def kTempVarName() -> str:
    """The name of variables that nobody named."""
    return "@TEMP@"


def kGradVarSuffix() -> str:
    """What the name of a gradient ends with."""
    return _GRAD


def kZeroVarSuffix() -> str:
    """What the name of a gradient of zeros ends with."""
    return "@ZERO"


def kControlDepVarName() -> str:
    """The name of edges of a graph that only order operators."""
    return "__control_var"


def kNewGradSuffix() -> str:
    """What the name of a gradient ends with that is computed once more."""
    return "@NEW@GRAD@"


class op_proto_and_checker_maker:
    """Roles of operators, and the names of the attributes that every operator has."""

    class OpRole(IntEnum):
        """What an operator does in training."""

        Forward = _Role.FORWARD
        Backward = _Role.BACKWARD
        Optimize = _Role.OPTIMIZE
        RPC = _Role.RPC
        Dist = _Role.DIST
        LRSched = _Role.LR_SCHED
        Loss = _Role.LOSS

    @staticmethod
    def kOpRoleAttrName() -> str:
        return ROLE

    @staticmethod
    def kOpRoleVarAttrName() -> str:
        return ROLE_VAR

    @staticmethod
    def kOpNameScopeAttrName() -> str:
        return NAMESCOPE

    @staticmethod
    def kOpCreationCallstackAttrName() -> str:
        return CALLSTACK

    @staticmethod
    def kOpDeviceAttrName() -> str:
        return DEVICE


class _Flags(MutableMapping[str, Any]):
    """Flags by their names `FLAGS_x`, to be read and set."""

    def __getitem__(self, name: str) -> Any:
        try:
            return flags.get_flags(name)[name]
        except ValueError as error:
            raise KeyError(str(error)) from None

    def __setitem__(self, name: str, value: Any) -> None:
        flags.set_flags({name: value})

    def __delitem__(self, name: str) -> None:
        raise TypeError("flags can't be removed")

    def __iter__(self) -> Iterator[str]:
        return (f"FLAGS_{name}" for name in FLAGS)

    def __len__(self) -> int:
        return len(FLAGS)

    def keys(self) -> Any:
        """Names of all flags."""
        return list(self)

    def is_public(self, name: str) -> bool:
        """Whether there is such a flag to set."""
        return name.removeprefix("FLAGS_") in FLAGS


_flags = _Flags()


def globals() -> _Flags:
    """All flags as a mapping: `core.globals()["FLAGS_check_nan_inf"] = True`."""
    return _flags


empty_var_name, grad_var_suffix = kEmptyVarName, kGradVarSuffix


def loaded_var_suffix() -> str:
    """What the names of a loaded model's variables end with."""
    return ".load"


def get_all_op_protos() -> list[bytes]:
    """Slots and attributes of all operators, as serialized `OpProto` messages."""
    return [operator_proto(op_type).SerializeToString() for op_type in operator_types()]


def get_op_attrs_default_value(op_type: bytes) -> dict[str, Any]:
    """Defaults of an operator's attributes."""
    return operator_defaults(op_type.decode() if isinstance(op_type, bytes) else op_type)


def size_of_dtype(dtype: _VarType) -> int:
    """Bytes of an element."""
    return to_torch(dtype).itemsize


def get_variable_tensor(scope: Scope, name: str) -> LoDTensor:
    """The tensor of a variable."""
    return scope.var(name).get_tensor()


def set_num_threads(count: int) -> None:
    """How many threads one of torch's kernels may use."""
    torch.set_num_threads(count)


def is_compiled_with_dist() -> bool:
    """Whether several processes can train together."""
    return True


def is_compiled_with_brpc() -> bool:
    """Whether parameter servers speak BRPC: no."""
    return False


def is_compiled_with_xpu() -> bool:
    """Whether programs can run on an `XPUPlace`."""
    return is_compiled_with("xpu")


def is_compiled_with_npu() -> bool:
    """Whether programs can run on an `NPUPlace`: whether torch_npu brings its devices."""
    return is_compiled_with("npu")


def is_compiled_with_mlu() -> bool:
    """Whether programs can run on an `MLUPlace`: whether torch_mlu brings its devices."""
    return is_compiled_with("mlu")


def is_compiled_with_ipu() -> bool:
    """Whether programs can run on an `IPUPlace`."""
    return is_compiled_with("ipu")


def is_compiled_with_custom_device(device_type: str) -> bool:
    """Whether a plugin of torch brings devices of that type."""
    return is_compiled_with(device_type)


def is_compiled_with_mkldnn() -> bool:
    """Whether Fluid's own MKL-DNN operators exist: no; PyTorch uses oneDNN by itself."""
    return False
