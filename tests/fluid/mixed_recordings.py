"""A recorded training program with its backward pass made anew, in mixed precision."""

from __future__ import annotations

from refluid.autodiff.backward import append_backward
from refluid.core.dtypes import VarType
from refluid.fluid.contrib.mixed_precision.fp16_lists import AutoMixedPrecisionLists
from refluid.fluid.contrib.mixed_precision.fp16_utils import rewrite_for
from refluid.ir.attributes import OpRole
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Parameter

_START = OpRole.BACKWARD | OpRole.LOSS


def _role(op: Operator) -> int:
    return int(op.attrs.get("op_role", 0))


def in_mixed_precision(program: Program, half: VarType = VarType.BF16) -> Program | None:
    """The same training in mixed precision; None where the program trains several losses.

    Forward operators get casts, gradients are appended again, updates stay as recorded.
    """
    copy = program.clone()
    block = copy.global_block()
    starts = [op for op in block.ops if _role(op) == _START and op.type == "fill_constant"]
    updates = [op for op in block.ops if op.input("Param")]
    if not updates:
        return copy
    if len(starts) != 1:
        return None
    loss = block.vars[starts[0].output("Out")[0].removesuffix("@GRAD")]
    late = [op for op in block.ops if _role(op) & OpRole.OPTIMIZE]
    block.ops[:] = [op for op in block.ops if not _role(op) & (OpRole.BACKWARD | OpRole.OPTIMIZE)]
    needed = {name for op in late for name in op.input_arg_names + op.output_arg_names}
    parameters = {op.input("Param")[0] for op in updates}
    for name in [name for name in block.vars if "@GRAD" in name]:
        if name not in needed or name.removesuffix("@GRAD") in parameters:
            del block.vars[name]
    for op in updates:
        old = block.vars[op.input("Param")[0]]
        parameter = Parameter(block, shape=old.shape, dtype=old.dtype, name=old.name)
        block.add_var(parameter)
    rewrite_for(copy, AutoMixedPrecisionLists(), half)
    names = [op.input("Param")[0] for op in updates]
    append_backward(loss, names, set())
    block.ops.extend(late)
    copy.touch()
    return copy
