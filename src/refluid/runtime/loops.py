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

from collections.abc import Mapping, Set
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from torch import Tensor, zeros_like

from refluid.analysis.counting import counted
from refluid.analysis.uses import Key, find_variable, key_of, reads, writes
from refluid.core.accumulator import Accumulator
from refluid.core.dtypes import VarType
from refluid.core.lod_tensor import LoDTensorArray
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.runtime.blocks import (
    append,
    enter,
    fix_lods,
    gradient_names,
    inner_gradient,
    is_rows,
    pass_lods,
    write_forward,
    write_gradient,
)
from refluid.runtime.counting import counted_rounds
from refluid.runtime.steps import Bind, While
from refluid.runtime.tape import Tape, make_tape
from refluid.runtime.trees import Formula, Name, called, method
from refluid.runtime.writing import CONTROL, Writing, handles

if TYPE_CHECKING:
    from refluid.runtime.row_sums import RowsLater


@handles("while")
def _while(writer: Writing, op: Operator) -> None:
    """Runs the sub-block as long as the condition holds."""
    tape = make_tape(op)
    record = writer.local(op.block, op.output("StepScopes")[0])
    if tape.wanted:
        writer.source.add(Bind(record, []))
    fix_lods(writer, op)
    with _rounds(writer, op, {*tape.keys, *tape.carried}):
        write_forward(writer, tape, lambda kept: append(record, kept, op))


def _rounds(writer: Writing, op: Operator, needed: Set[Key]) -> AbstractContextManager[object]:
    """The loop itself. needed: what is kept of each round."""
    how = counted(op, needed) if writer.request.counts else None
    if how is not None:
        return counted_rounds(writer, op, how)
    condition = writer.local(op.block, op.input("Condition")[0])
    return writer.source.block(While(method(condition, "item"), op=op))


@handles("while_grad")
def _while_grad(writer: Writing, op: Operator) -> None:
    """The gradient block for each run of the sub-block, the last one first.

    The gradient of an array is an array that the block reads and writes. That of a variable
    which the loop changes is passed from run to run; that of any other is the sum over the runs.
    """
    record = writer.local(op.block, op.input("StepScopes")[0])
    block, add, names = op.attr("sub_block"), writer.source.add, writer.variables.names
    tape = writer.tapes.get(block.forward_block_idx)
    fix_lods(writer, op)
    carried = [names[key] for key in tape.carried] if tape else []
    after = {own: Name(f"{own}_after") for own in carried}
    for own, kept in after.items():
        add(Bind(kept, own))
    changed = {key for inner in block.ops for key in writes(inner)}
    arrays, passed, summed = _kinds(op)
    _enter_arrays(writer, op, arrays)
    or_zeros = writer.source.constant("or_zeros", _or_zeros)
    for name, _ in passed:
        given = names.get(key_of(op.block, name + GRAD))
        value = called(or_zeros, given, writer.local(op.block, name))
        enter(writer, block, name + GRAD, value)
    sums = {name: Name(f"s{block.idx}_{index}") for index, (name, _) in enumerate(summed)}
    later = _begin_sums(writer, tape, op, sums)
    wanted = [name for name, _ in passed + summed if name not in later]
    rows = [name for one in later.values() for name in one.names]
    with writer.source.block(While(record, op=op)):
        write_gradient(writer, op, method(record, "pop"), wanted, rows)
        for name, one in sums.items():
            if name in later:
                add(append(one, later[name].values(writer)))
            elif key_of(block, name + GRAD) in changed:
                add(Bind(None, method(one, "add", inner_gradient(writer, op, name))))
        for name in _made_anew(op, changed):
            gradient = writer.local(block, name + GRAD)
            zeros = writer.source.constant("zeros_like", zeros_like)
            add(Bind(gradient, called(zeros, gradient)))
    for name, grad in summed:
        result = method(sums[name], "result", writer.local(op.block, name), is_rows(op, grad))
        add(Bind(writer.local(op.block, grad), result, op=op))
    for name, grad in arrays:
        outer, inner = writer.local(op.block, grad), inner_gradient(writer, op, name)
        if outer != inner:
            add(Bind(outer, inner))
    for name, grad in passed:
        outer, inner = writer.local(op.block, grad), inner_gradient(writer, op, name)
        add(Bind(outer, called(or_zeros, inner, writer.local(op.block, name)), op=op))
    for own, kept in after.items():
        add(Bind(own, kept))
    pass_lods(writer, op, gradient_names(op, "X"))


def _begin_sums(
    writer: Writing, tape: Tape | None, op: Operator, sums: Mapping[str, Name]
) -> dict[str, RowsLater]:
    """Makes the sums; those whose gradients wait for the end of the loop, so that the operators
    that give them leave them out."""
    later: dict[str, RowsLater] = {}
    if tape is not None and writer.request.sums_rows:
        from refluid.runtime.row_sums import rows_later  # few programs have loops

        later = rows_later(op.attr("sub_block"), list(sums), tape.gradient_pairs)
    for one in later.values():
        writer.unread[one.op] = writer.unread.get(one.op, frozenset()) | {one.output}
    for name, local in sums.items():
        maker = later[name].maker(writer) if name in later else Accumulator
        writer.source.add(Bind(local, called(writer.source.constant("new_sum", maker))))
    return later


def _or_zeros(gradient: Any, value: Any) -> Any:
    """The gradient of a variable; where no round gave it one, and nothing after the loop, zeros."""
    return zeros_like(value) if gradient is None and isinstance(value, Tensor) else gradient


def _made_anew(op: Operator, changed: Set[Key]) -> list[str]:
    """Variables that each round makes anew: no gradient leads to what they were before.

    Their gradients are the last round's; those of earlier rounds are zero.
    """
    block = op.attr("sub_block")
    forward = block.program.blocks[block.forward_block_idx]
    read = {key for one in block.ops for key in reads(one)}
    found = []
    for grad in op.input("Out" + GRAD):
        name = grad.removesuffix(GRAD)
        gradient, writers = (
            key_of(block, grad),
            [one for one in forward.ops if name in one.output_arg_names],
        )
        plain = writers and all(one.type not in CONTROL for one in writers)
        if plain and gradient in read - changed:
            found.append(name)
    return found


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


def _enter_arrays(writer: Writing, op: Operator, arrays: Pairs) -> None:
    """The gradient block works on the very arrays of the enclosing block."""
    block = op.attr("sub_block")
    array = writer.source.constant("LoDTensorArray", LoDTensorArray)
    names = [name for name, _ in arrays]
    names += [grad.removesuffix(GRAD) for grad in op.input("Out" + GRAD)]
    for name in dict.fromkeys(names):
        var = find_variable(op.block, name)
        if var is None or var.type != VarType.LOD_TENSOR_ARRAY:
            continue
        outer = writer.variables.names.get(key_of(op.block, name + GRAD))
        if outer is None:
            enter(writer, block, name + GRAD, called(array))
            continue
        value = Formula("{} if {} is None else {}", (called(array), outer, outer))
        writer.source.add(Bind(outer, value))
        if writer.local(block, name + GRAD) != outer:
            enter(writer, block, name + GRAD, outer)
