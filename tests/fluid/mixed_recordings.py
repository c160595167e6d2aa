"""A recorded training program with its backward pass made anew: in mixed precision, recomputing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refluid.autodiff.backward import append_backward
from refluid.core.dtypes import VarType
from refluid.fluid.contrib.mixed_precision.fp16_lists import AutoMixedPrecisionLists
from refluid.fluid.contrib.mixed_precision.fp16_utils import rewrite_for
from refluid.ir.attributes import OpRole
from refluid.ir.editor import Editor
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable

_START = OpRole.BACKWARD | OpRole.LOSS
_FLOATS = (VarType.FP32, VarType.FP64)


def in_mixed_precision(program: Program, half: VarType = VarType.BF16) -> Program | None:
    """The same training in mixed precision; None where it has several losses, or one of gradients.

    Forward operators get casts, gradients are appended again, updates stay as recorded.
    """

    def rewrite(copy: Program, loss: Variable) -> Sequence[str]:
        rewrite_for(copy, AutoMixedPrecisionLists(), half)
        return ()

    return _anew(program, rewrite)


def recomputing(program: Program, count: int = 3) -> Program | None:
    """The same training, of whose activations only `count` are kept; None as above."""

    def choose(copy: Program, loss: Variable) -> Sequence[str]:
        found = _on_the_way(copy, loss)
        return [
            found[len(found) * (one + 1) // (count + 1)] for one in range(min(count, len(found)))
        ]

    return _anew(program, choose)


def _anew(
    program: Program, prepare: Callable[[Program, Variable], Sequence[str]]
) -> Program | None:
    """A copy with gradients appended again; `prepare` changes it before, and names checkpoints."""
    copy = program.clone()
    block = copy.global_block()
    starts = [op for op in block.ops if op.role == _START and op.type == "fill_constant"]
    updates = [op for op in block.ops if op.input("Param")]
    if not updates:
        return copy
    if len(starts) != 1:
        return None
    loss = block.vars[starts[0].output("Out")[0].removesuffix("@GRAD")]
    late = [op for op in block.ops if op.role & OpRole.OPTIMIZE]
    Editor(block).keep(lambda op: not op.role & (OpRole.BACKWARD | OpRole.OPTIMIZE))
    if any("@GRAD" in name for op in block.ops for name in op.input_arg_names):
        return None
    needed = {name for op in late for name in op.input_arg_names + op.output_arg_names}
    parameters = {op.input("Param")[0] for op in updates}
    for name in [name for name in block.vars if "@GRAD" in name]:
        if name not in needed or name.removesuffix("@GRAD") in parameters:
            del block.vars[name]
    for op in updates:
        old = block.vars[op.input("Param")[0]]
        parameter = Parameter(block, shape=old.shape, dtype=old.dtype, name=old.name)
        block.add_var(parameter)
    checkpoints = prepare(copy, loss)
    names = [op.input("Param")[0] for op in updates]
    append_backward(loss, names, set(), checkpoints=list(checkpoints))
    Editor(block).append(*late)
    return copy


def _on_the_way(program: Program, loss: Variable) -> list[str]:
    """What is computed from parameters and leads to the loss, in order."""
    block = program.global_block()
    trained = {param.name for param in program.all_parameters()}
    ops, wanted = [], {loss.name}
    for op in reversed(block.ops):
        if wanted & set(op.output_arg_names):
            wanted |= set(op.input_arg_names)
            ops.append(op)
    found = []
    for op in reversed(ops):
        if not trained & set(op.input_arg_names) or "sub_block" in op.attrs:
            continue
        trained |= set(op.output_arg_names)
        name = op.output_arg_names[0]
        var = block.vars.get(name)
        dense = var is not None and var.type == VarType.LOD_TENSOR and var.dtype in _FLOATS
        if dense and not block.vars[name].persistable and name != loss.name and name in wanted:
            found.append(name)
    return found
