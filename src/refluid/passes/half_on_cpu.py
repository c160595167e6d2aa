"""float16 -> bfloat16 in a program that runs on the CPU, where float16 kernels are slow."""

from __future__ import annotations

import logging

from refluid.core.dtypes import VarType
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.kernels.onednn import has_bfloat16
from refluid.kernels.processor import bfloat16_multiplies_faster
from refluid.ops.registry import find
from refluid.passes.protocol import Options, Report

_log = logging.getLogger("refluid")
_FP16, _BF16 = int(VarType.FP16), int(VarType.BF16)
_DTYPE_ATTRS = ("in_dtype", "out_dtype", "dtype")
_told: set[str] = set()


def is_useful(program: Program, _options: Options) -> bool:
    """Whether a matrix product or convolution computes in float16.

    Not in a program that is fed float16, or keeps it in a persistable variable.
    """
    return _computes_in_half(program) and not any(
        _fixed(var.persistable or var.is_data, var.dtype) for var in program.list_vars()
    )


def half_on_cpu(program: Program, _options: Options) -> Report:
    """Puts bfloat16 in the place of float16, and says so in the log, once."""
    for var in program.list_vars():
        if var.type in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS) and var.dtype == VarType.FP16:
            var.dtype = VarType.BF16
    for block in program.blocks:
        for op in block.ops:
            _change_attributes(op)
    _tell()
    return Report(changed=True)


def _fixed(kept: bool, dtype: VarType) -> bool:
    return kept and dtype == VarType.FP16


def _computes_in_half(program: Program) -> bool:
    for block in program.blocks:
        for op in block.ops:
            definition = find(op.type)
            if definition is None or definition.amp != "fast":
                continue
            found = (block.find_var_recursive(name) for name in op.input_arg_names)
            if any(var is not None and var.dtype == VarType.FP16 for var in found):
                return True
    return False


def _change_attributes(op: Operator) -> None:
    for name in _DTYPE_ATTRS:
        if op.attr(name) == _FP16 and name in op.attrs:
            op.set_attr(name, _BF16)


def _tell() -> None:
    text = "float16 is computed as bfloat16 on the CPU, where float16 has no fast kernels"
    if has_bfloat16() is False or not bfloat16_multiplies_faster():
        text += "; bfloat16 doesn't pay on this processor, which multiplies float32 as fast"
    if text not in _told:
        _told.add(text)
        _log.warning(text)
