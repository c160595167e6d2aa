"""`while` and its gradient as Python loops of a plan.

w1 = []
while v3.item():
    ...
    w1.append((v7, v9))

s5 = Accumulator()
while w1:
    (v7, v9) = w1.pop()
    ...
    s5.add(v12)
v20 = s5.result(p4)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from refluid.analysis.liveness import find_variable, key_of, writes
from refluid.core.dtypes import VarType
from refluid.core.lod_tensor import LoDTensorArray
from refluid.ir.operator import Operator
from refluid.ops.signature import GRAD
from refluid.runtime.accumulator import Accumulator
from refluid.runtime.control import (
    fix_lods,
    gradient_names,
    handles,
    inner_gradient,
    pass_lods,
    write_forward,
    write_gradient,
)
from refluid.runtime.tape import make_tape

if TYPE_CHECKING:
    from refluid.runtime.codegen import Writer


@handles("while")
def _while(writer: Writer, op: Operator) -> None:
    """Runs the sub-block as long as the condition holds."""
    tape = make_tape(op)
    record = writer.local(op.block, op.output("StepScopes")[0])
    if tape.wanted:
        writer.source.add(f"{record} = []")
    fix_lods(writer, op)
    condition = writer.local(op.block, op.input("Condition")[0])
    with writer.source.block(f"while {condition}.item():", op):
        write_forward(writer, op, tape, f"{record}.append({{}})")


@handles("while_grad")
def _while_grad(writer: Writer, op: Operator) -> None:
    """The gradient block for each run of the sub-block, the last one first.

    The gradient of an array is an array that the block reads and writes. That of a variable
    which the loop changes is passed from run to run; that of any other is the sum over the runs.
    """
    record = writer.local(op.block, op.input("StepScopes")[0])
    block = op.attr("sub_block")
    tape = writer.tapes.get(block.forward_block_idx)
    fix_lods(writer, op)
    carried = [writer.names[key] for key in tape.carried] if tape else []
    for name in carried:
        writer.source.add(f"{name}_after = {name}")
    changed = {key for inner in block.ops for key in writes(inner)}
    arrays, passed, summed = _kinds(op)
    _enter_arrays(writer, op, arrays)
    for name, _ in passed:
        given = writer.names.get(key_of(op.block, name + GRAD), "None")
        if writer.local(block, name + GRAD) != given:
            writer.enter(block, name + GRAD, given)
    sums = {grad: f"s{block.idx}_{index}" for index, (_, grad) in enumerate(summed)}
    maker = writer.source.constant("Accumulator", Accumulator)
    for one in sums.values():
        writer.source.add(f"{one} = {maker}()")
    with writer.source.block(f"while {record}:", op):
        write_gradient(writer, op, f"{record}.pop()", [name for name, _ in passed + summed])
        for name, grad in summed:
            if key_of(block, name + GRAD) in changed:
                writer.source.add(f"{sums[grad]}.add({inner_gradient(writer, op, name)})")
    for name, grad in summed:
        like = writer.local(op.block, name)
        writer.source.add(f"{writer.local(op.block, grad)} = {sums[grad]}.result({like})", op)
    for name, grad in passed + arrays:
        outer, inner = writer.local(op.block, grad), inner_gradient(writer, op, name)
        if outer != inner:
            writer.source.add(f"{outer} = {inner}")
    for name in carried:
        writer.source.add(f"{name} = {name}_after")
    pass_lods(writer, op, gradient_names(op, "X"))


Pairs = list[tuple[str, str]]


def _kinds(op: Operator) -> tuple[Pairs, Pairs, Pairs]:
    """The wanted gradients: of arrays, of variables that the loop changes, of all others."""
    changed = set(op.input("Out"))
    arrays: Pairs = []
    passed: Pairs = []
    summed: Pairs = []
    for name, grad in gradient_names(op, "X"):
        var = find_variable(op.block, name)
        if var is not None and var.type == VarType.LOD_TENSOR_ARRAY:
            arrays.append((name, grad))
        else:
            (passed if name in changed else summed).append((name, grad))
    return arrays, passed, summed


def _enter_arrays(writer: Writer, op: Operator, arrays: Pairs) -> None:
    """The gradient block works on the very arrays of the enclosing block."""
    block = op.attr("sub_block")
    array = writer.source.constant("LoDTensorArray", LoDTensorArray)
    names = [name for name, _ in arrays]
    names += [grad.removesuffix(GRAD) for grad in op.input("Out" + GRAD)]
    for name in dict.fromkeys(names):
        var = find_variable(op.block, name)
        if var is None or var.type != VarType.LOD_TENSOR_ARRAY:
            continue
        outer = writer.names.get(key_of(op.block, name + GRAD))
        if outer is None:
            writer.enter(block, name + GRAD, f"{array}()")
            continue
        writer.source.add(f"{outer} = {array}() if {outer} is None else {outer}")
        if writer.local(block, name + GRAD) != outer:
            writer.enter(block, name + GRAD, outer)
