"""`fluid.framework`: programs and what they are made of."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from refluid.build import at_once, backend
from refluid.core.dtypes import FLOATING, VarType, as_dtype
from refluid.core.flags import get_flags, set_flags
from refluid.core.places import (
    CPUPlace,
    CUDAPlace,
    cpu_places,
    cuda_pinned_places,
    cuda_places,
    is_compiled_with_cuda,
)
from refluid.fluid.graphs.operator_protos import operator_proto, operator_types
from refluid.ir.ambient import device_guard, name_scope
from refluid.ir.attributes import CALLSTACK, DEVICE, NAMESCOPE, ROLE, ROLE_VAR
from refluid.ir.block import Block
from refluid.ir.complex_variable import ComplexVariable
from refluid.ir.defaults import (
    default_main_program,
    default_startup_program,
    program_guard,
    switch_main_program,
    switch_startup_program,
)
from refluid.ir.names import EMPTY as EMPTY_VAR_NAME
from refluid.ir.names import GRAD as GRAD_VAR_SUFFIX
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable
from refluid.passes.prune import prune, without_readers

if TYPE_CHECKING:
    from refluid.ir import framework_pb2 as pb

__all__ = [
    "EMPTY_VAR_NAME",
    "GRAD_VAR_SUFFIX",
    "TEMP_VAR_NAME",
    "ZERO_VAR_SUFFIX",
    "Block",
    "ComplexVariable",
    "OpProtoHolder",
    "Operator",
    "Parameter",
    "Program",
    "Variable",
    "convert_np_dtype_to_dtype_",
    "cpu_places",
    "cuda_pinned_places",
    "cuda_places",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "dtype_is_floating",
    "get_all_op_protos",
    "get_flags",
    "grad_var_name",
    "in_dygraph_mode",
    "is_compiled_with_cuda",
    "load_op_library",
    "name_scope",
    "program_guard",
    "require_version",
    "set_flags",
    "switch_main_program",
    "switch_startup_program",
]

TEMP_VAR_NAME = "@TEMP@"
ZERO_VAR_SUFFIX = "@ZERO"
FLUID_VERSION = (1, 8, 5)


def convert_np_dtype_to_dtype_(np_dtype: Any) -> VarType:
    """The `VarType` of a NumPy dtype or its name."""
    return as_dtype(np_dtype)


def _get_var(name: str, program: Program | None = None) -> Variable:
    """The variable of a program's global block; of the default main program's where None."""
    return (default_main_program() if program is None else program).global_block().var(name)


def _current_expected_place() -> CPUPlace | CUDAPlace:
    """Where programs run unless an executor is told: the first GPU, where there is one."""
    return CUDAPlace(0) if is_compiled_with_cuda() else CPUPlace()


def grad_var_name(var_name: str) -> str:
    """Name of the gradient of a variable."""
    return var_name + GRAD_VAR_SUFFIX


def in_dygraph_mode() -> bool:
    """Whether operators run at once instead of being appended to a program."""
    return at_once()


def _dygraph_tracer() -> Any:
    """What runs operators at once; None where they are appended to programs."""
    if not at_once():
        return None
    return importlib.import_module("refluid.fluid.dygraph.tracer").Tracer()


def _varbase_creator(
    type: VarType = VarType.LOD_TENSOR,
    name: str | None = None,
    shape: Any = None,
    dtype: Any = None,
    persistable: bool | None = None,
) -> Any:
    """A variable without value of a network that runs at once, for what an operator gives."""
    return backend().state(
        type=type, name=name, shape=shape, dtype=dtype, persistable=bool(persistable)
    )


def __getattr__(name: str) -> Any:
    if name != "ParamBase":  # which only networks that run at once need
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("refluid.eager.parameter").ParamBase


def dygraph_only(func: Callable[..., Any]) -> Callable[..., Any]:
    """`func`, which may only be called where operators run at once."""
    return _only(func, True, "We only support '{}()' in dynamic graph mode, please call it there")


def dygraph_not_support(func: Callable[..., Any]) -> Callable[..., Any]:
    """`func`, which may only be called where operators are appended to a program."""
    return _only(func, False, "'{}()' builds a program, and isn't called in dynamic graph mode")


def _only(func: Callable[..., Any], wanted: bool, says: str) -> Callable[..., Any]:
    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        if at_once() is not wanted:
            raise AssertionError(says.format(func.__name__))
        return func(*args, **kwargs)

    return call


def dtype_is_floating(dtype: Any) -> bool:
    """Whether elements of this type are floating-point numbers."""
    return as_dtype(dtype) in FLOATING


def load_op_library(lib_filename: str) -> None:
    """Fluid loads compiled operators here; refluid can't: always NotImplementedError."""
    raise NotImplementedError(
        f"{lib_filename} holds operators compiled for Fluid, which refluid can't run; write them "
        "as Python operators (CONTRIBUTING says how)"
    )


def require_version(min_version: str, max_version: str | None = None) -> None:
    """Raises an Exception unless Fluid 1.8.5, which refluid stands for, lies in the range."""
    low, high = _parse(min_version), None if max_version is None else _parse(max_version)
    stands_for = (*FLUID_VERSION, 0)
    if low > stands_for or (high is not None and high < stands_for):
        own = importlib.metadata.version("refluid")
        raise Exception(
            f"VersionError: Fluid {min_version} to {max_version or 'any'} is required; refluid "
            f"{own} stands for Fluid 1.8.5"
        )


def _parse(version: str) -> tuple[int, ...]:
    if not isinstance(version, str):
        raise TypeError(f"a version is a str such as '1.8.0', not {type(version).__name__}")
    if not re.fullmatch(r"\d+(\.\d+){0,3}", version):
        raise ValueError(f"{version!r} is not a version; write it as '1.8.0'")
    parts = [int(part) for part in version.split(".")]
    return tuple(parts + [0] * (4 - len(parts)))


def _prune(self: Program, targets: Any) -> Program:
    """A copy with just the operators that the targets need."""
    return _prune_with_input(self, [], targets)


def _prune_with_input(self: Program, feeded_var_names: Any, targets: Any) -> Program:
    """As `_prune`, without what computes the variables that are fed."""
    feeds = [feeded_var_names] if isinstance(feeded_var_names, str) else feeded_var_names
    wanted = targets if isinstance(targets, list | tuple) else [targets]
    return prune(self, [name for one in wanted for name in _target_names(one)], feeds)


def _target_names(target: Any) -> list[str]:
    if isinstance(target, Operator):
        return target.output_arg_names
    return [target if isinstance(target, str) else target.name]


def _inference_optimize(self: Program, prune_read_op: bool = True) -> Program:
    """A copy in which operators run as in inference; by default its readers are left out."""
    copy = without_readers(self) if prune_read_op else self.clone()
    copy.inference_mode()
    return copy


def _sync_with_cpp(self: Any) -> None:
    """Changes nothing: there is no second description of a program or block."""


# (Passes stand above the IR.)
Program._prune = _prune  # type: ignore[attr-defined]
Program._prune_with_input = _prune_with_input  # type: ignore[attr-defined]
Program._inference_optimize = _inference_optimize  # type: ignore[attr-defined]
Program._sync_with_cpp = _sync_with_cpp  # type: ignore[attr-defined]
Block._sync_with_cpp = _sync_with_cpp  # type: ignore[attr-defined]


def get_all_op_protos() -> list[pb.OpProto]:
    """The slots and attributes of all operators."""
    return [operator_proto(op_type) for op_type in operator_types()]


class OpProtoHolder:
    """What is known of each operator: `OpProtoHolder.instance().get_op_proto("mul").inputs`."""

    _instance: OpProtoHolder

    def __init__(self) -> None:
        if hasattr(type(self), "_instance"):
            raise TypeError("Please use `instance()` to get OpProtoHolder object!")

    @classmethod
    def instance(cls) -> OpProtoHolder:
        """The one holder."""
        if not hasattr(cls, "_instance"):
            cls._instance = cls()
        return cls._instance

    def get_op_proto(self, type: str) -> pb.OpProto:
        """Slots and attributes of an operator; ValueError for an unknown one."""
        return operator_proto(type)

    def update_op_proto(self) -> None:
        """Changes nothing: operators registered later are known at once."""

    @staticmethod
    def generated_op_attr_names() -> set[str]:
        """Attributes that every operator has."""
        return {ROLE, ROLE_VAR, NAMESCOPE, CALLSTACK, DEVICE}
