"""Operators that are part of a plan's own steps: branches and tensor arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from refluid.analysis.uses import key_of
from refluid.core.accumulator import no_rows
from refluid.core.tensor_arrays import array_length, read_item, write_item
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.runtime.blocks import (
    fix_lods,
    gradient_names,
    inner_gradient,
    is_rows,
    pass_lods,
    write_forward,
    write_gradient,
)
from refluid.runtime.steps import Bind, Call, If, Pause
from refluid.runtime.tape import make_tape
from refluid.runtime.trees import IGNORED, Formula, Name, Tree, called, copied, method
from refluid.runtime.writing import Writing, handles

# -- branches -------------------------------------------------------------------


@handles("conditional_block", "conditional_block_infer")
def _conditional_block(writer: Writing, op: Operator) -> None:
    """Runs the sub-block if the condition holds, or if no condition tensor is empty."""
    conditions = _locals(writer, op, "Cond")
    if op.attr("is_scalar_condition"):
        test = method(conditions[0], "item")
    else:
        test = Formula(" and ".join(["{}.numel()"] * len(conditions)), tuple(conditions))
    tape = make_tape(op)
    record = writer.local(op.block, op.output("Scope")[0]) if tape.wanted else None
    if record:
        writer.source.add(Bind(record, None))
    fix_lods(writer, op)
    with writer.source.block(If(test, op=op)):
        write_forward(writer, tape, partial(Bind, record, op=op))


@handles("conditional_block_grad")
def _conditional_block_grad(writer: Writing, op: Operator) -> None:
    """The gradient block if the block was run; else zeros, or no rows of a table."""
    record = writer.local(op.block, op.input("Scope")[0])
    wanted = gradient_names(op, "Input")
    fix_lods(writer, op)
    with writer.source.block(If(Formula("{} is not None", (record,)), op=op)) as branch:
        write_gradient(writer, op, record, [name for name, _ in wanted])
        for name, grad in wanted:
            writer.source.add(Bind(_local(writer, op, grad), inner_gradient(writer, op, name)))
    with writer.source.inside(branch.otherwise):
        for name, grad in wanted:
            rows = is_rows(op, grad)
            nothing = no_rows if rows else _zeros_like
            zeros = writer.source.constant("no_rows" if rows else "zeros_like", nothing)
            value = called(zeros, _local(writer, op, name))
            writer.source.add(Bind(_local(writer, op, grad), value))
    pass_lods(writer, op, wanted)


def _zeros_like(value: Any) -> torch.Tensor | None:
    return torch.zeros_like(value) if isinstance(value, torch.Tensor) else None


@handles("select_output")
def _select_output(writer: Writing, op: Operator) -> None:
    """Gives X to the output that Mask numbers; the others get nothing."""
    (value,), (mask,) = _locals(writer, op, "X"), _locals(writer, op, "Mask")
    source = key_of(op.block, op.input("X")[0])
    for number, name in enumerate(op.output("Out")):
        if name != EMPTY:
            chosen = Formula("{} if {}.item() == {} else None", (value, mask, number))
            writer.source.add(Bind(_local(writer, op, name), chosen, op=op))
            writer.lods.pass_on(source, key_of(op.block, name))


@handles("pause")
def _pause(writer: Writing, op: Operator) -> None:
    """Hands the values of X and their LoDs out, and goes on with those of Out."""
    values = tuple(_locals(writer, op, "X"))
    levels = tuple(writer.lods.of(key_of(op.block, name)) for name in op.input("X"))
    given = tuple(_local(writer, op, name) for name in op.output("Out"))
    writer.source.add(Pause(given, (values, levels), op=op))


# -- arrays ---------------------------------------------------------------------


@handles("write_to_array")
def _write_to_array(writer: Writing, op: Operator) -> None:
    call = writer.source.constant("write_item", write_item)
    array = _local(writer, op, op.output("Out")[0])
    position, (name,) = _place(writer, op), op.input("X")
    key = key_of(op.block, name)
    value: Tree = writer.local(op.block, name)
    if key in writer.variables.overwritten or key in writer.variables.state:
        value = copied(value)
    levels = writer.lods.of(key)
    writer.source.add(Call(array, call, (array, position, value, levels), op=op))


@handles("read_from_array")
def _read_from_array(writer: Writing, op: Operator) -> None:
    call = writer.source.constant("read_item", read_item)
    name = op.output("Out")[0]
    key = key_of(op.block, name)
    (array,), position = _locals(writer, op, "X"), _place(writer, op)
    (like,) = _locals(writer, op, "X_W") or [None]
    target = _local(writer, op, name)
    levels = writer.lods.set_apart(key) if writer.lods.ragged else IGNORED
    writer.source.add(Call((target, levels), call, (array, position, like), op=op))
    if key in writer.variables.overwritten:
        writer.source.add(Bind(target, copied(target), op=op))


@handles("lod_array_length")
def _lod_array_length(writer: Writing, op: Operator) -> None:
    call = writer.source.constant("array_length", array_length)
    (array,) = _locals(writer, op, "X")
    writer.source.add(Call(_local(writer, op, op.output("Out")[0]), call, (array,), op=op))


def _place(writer: Writing, op: Operator) -> Tree:
    """The position in an array: a tensor, or the number that a loop counts."""
    return writer.places.get(op) or _locals(writer, op, "I")[0]


def _local(writer: Writing, op: Operator, name: str) -> Name | None:
    return writer.local(op.block, name)


def _locals(writer: Writing, op: Operator, slot: str) -> list[Name | None]:
    return [writer.local(op.block, name) for name in op.input(slot)]
