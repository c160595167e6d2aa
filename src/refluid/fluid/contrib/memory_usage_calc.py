"""memory_usage: how much memory a program's variables will take."""

from __future__ import annotations

import math

from refluid.core.dtypes import VarType, to_torch
from refluid.ir.program import Program

__all__ = ["memory_usage"]

_STEP = 1024
_UNITS = ("B", "KB", "MB")
_TYPES = "FP16 FP32 FP64 INT16 INT32 INT64 BOOL UINT8"
dtype_to_size = {VarType[name]: to_torch(VarType[name]).itemsize for name in _TYPES.split()}
_EXTRA = (1.05, 1.1)  # what kernels need besides, at least and at most


def memory_usage(program: Program, batch_size: int) -> tuple[float, float, str]:
    """(least, most, unit) of memory that the global block's variables take with `batch_size`.

    unit: "B", "KB" or "MB". TypeError unless it is a program, ValueError for a batch size that
    isn't positive, or a variable with two unknown sizes.
    """
    if not isinstance(program, Program):
        raise TypeError(
            "Calculating Memory Usage requires Program as its Parameter. But you passed in "
            f"{type(program).__name__}"
        )
    if batch_size <= 0:
        raise ValueError("The batch size need to be positive.")
    block = program.global_block()
    total = 0.0
    for name in dict.fromkeys(name for op in block.ops for name in op.output_arg_names):
        var = block.find_var_recursive(name)
        if var is None or not var.has_description():
            continue
        if sum(size < 0 for size in var.shape) > 1:
            raise ValueError(f"variable {name} has more than one unknown size: {var.shape}")
        count = math.prod(batch_size * -size if size < 0 else size for size in var.shape)
        total += count * to_torch(var.dtype).itemsize
    unit = 0
    while total > _STEP and unit + 1 < len(_UNITS):
        total, unit = total / _STEP, unit + 1
    return total * _EXTRA[0], total * _EXTRA[1], _UNITS[unit]
