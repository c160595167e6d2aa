"""Operators that are part of a plan's own Python: branches and tensor arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from refluid.analysis.liveness import EMPTY, Key, key_of, writes
from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.signature import GRAD
from refluid.runtime.arrays import array_length, read_item, write_item
from refluid.runtime.tape import Tape, make_tape

if TYPE_CHECKING:
    from refluid.runtime.codegen import Writer

Handler = Callable[["Writer", Operator], None]
CONTROL: dict[str, Handler] = {}
# Feeds and fetches are the arguments and results of the plan itself.
FEEDING = frozenset({"feed", "fetch"})


def handles(*types: str) -> Callable[[Handler], Handler]:
    """Registers the decorated function as writing operators of these types into a plan."""

    def decorate(handler: Handler) -> Handler:
        for op_type in types:
            CONTROL[op_type] = handler
        return handler

    return decorate


# -- sub-blocks -----------------------------------------------------------------


def write_forward(
    writer: Writer, op: Operator, tape: Tape, record: str, results: Collection[Key] = ()
) -> None:
    """The sub-block once, and `record` as the line that keeps what its gradient needs.

    results: variables of the sub-block that are used after it.
    """
    for key in tape.carried:
        copy = ".clone()" if key in writer.overwritten else ""
        writer.source.add(f"{tape.before(writer, key)} = {writer.names[key]}{copy}")
    writer.write_sub_block(tape.block, {*tape.keys, *results}, tape.forward_pairs)
    if tape.wanted:
        for key in tape.keys:
            if key in writer.names and key in writer.overwritten:
                name = writer.names[key]
                writer.source.add(f"{name} = {name}.clone()")
        names = tape.names(writer)
        packed = f"({', '.join(names)}{',' if len(names) == 1 else ''})"
        writer.source.add(record.format(packed), op)
    writer.tapes[tape.block.idx] = tape


def write_gradient(
    writer: Writer, op: Operator, record: str, wanted: Iterable[str], others: Iterable[str] = ()
) -> None:
    """The gradient block once, after taking back what the forward block kept in `record`.

    wanted: forward variables whose gradients are used after it. others: its own variables.
    """
    block = op.attr("sub_block")
    tape = writer.tapes.get(block.forward_block_idx)
    if tape is None:
        raise EnforceNotMet(_without_forward(op))
    names = tape.targets(writer)
    target = f"({', '.join(names)}{',' if len(names) == 1 else ''})" if names else "_"
    writer.source.add(f"{target} = {record}", op)
    kept = {key_of(block, name) for name in (*(one + GRAD for one in wanted), *others)}
    writer.write_sub_block(block, kept, tape.gradient_pairs)


def _without_forward(op: Operator) -> str:
    return (
        f"{op.type} needs what {op.type.removesuffix('_grad')} computed in the same run, but that "
        "operator is not part of the program that is run.\n" + "\n".join(op.callstack)
    )


def fix_lods(writer: Writer, op: Operator) -> None:
    """Gives the outer variables that the sub-block writes a LoD that can be assigned."""
    if writer.ragged:
        for key in sorted(writes(op)):
            if key not in writer.lods.fixed:
                writer.source.add(writer.lods.fix(key))


def gradient_names(op: Operator, slot: str) -> list[tuple[str, str]]:
    """(variable, its gradient) of an input slot, for the gradients that are asked for."""
    pairs = zip(op.input(slot), op.output(slot + GRAD), strict=False)
    return [(name, grad) for name, grad in pairs if grad != EMPTY]


def pass_lods(writer: Writer, op: Operator, pairs: Iterable[tuple[str, str]]) -> None:
    """A gradient has the LoD of its variable."""
    for name, grad in pairs:
        for line in writer.lods.pass_on(key_of(op.block, name), key_of(op.block, grad)):
            writer.source.add(line)


def inner_gradient(writer: Writer, op: Operator, name: str) -> str:
    """What the gradient block calls the gradient of a forward variable; None if it makes none."""
    block = op.attr("sub_block")
    return writer.names.get(key_of(block, name + GRAD), "None")


# -- branches -------------------------------------------------------------------


@handles("conditional_block", "conditional_block_infer")
def _conditional_block(writer: Writer, op: Operator) -> None:
    """Runs the sub-block if the condition holds, or if no condition tensor is empty."""
    conditions = [writer.local(op.block, name) for name in op.input("Cond")]
    if op.attr("is_scalar_condition"):
        test = f"if {conditions[0]}.item():"
    else:
        test = "if " + " and ".join(f"{name}.numel()" for name in conditions) + ":"
    tape = make_tape(op)
    record = writer.local(op.block, op.output("Scope")[0]) if tape.wanted else ""
    if record:
        writer.source.add(f"{record} = None")
    fix_lods(writer, op)
    with writer.source.block(test, op):
        write_forward(writer, op, tape, f"{record} = {{}}")


@handles("conditional_block_grad")
def _conditional_block_grad(writer: Writer, op: Operator) -> None:
    """The gradient block if the block was run; else zeros."""
    record = writer.local(op.block, op.input("Scope")[0])
    wanted = gradient_names(op, "Input")
    fix_lods(writer, op)
    with writer.source.block(f"if {record} is not None:", op):
        write_gradient(writer, op, record, [name for name, _ in wanted])
        for name, grad in wanted:
            writer.source.add(_assign(writer, op, grad, inner_gradient(writer, op, name)))
    zeros = writer.source.constant("zeros_like", _zeros_like)
    with writer.source.block("else:"):
        for name, grad in wanted:
            value = f"{zeros}({writer.local(op.block, name)})"
            writer.source.add(_assign(writer, op, grad, value))
    pass_lods(writer, op, wanted)


def _zeros_like(value: torch.Tensor | None) -> torch.Tensor | None:
    return None if value is None else torch.zeros_like(value)


def _assign(writer: Writer, op: Operator, name: str, value: str) -> str:
    return f"{writer.local(op.block, name)} = {value}"


@handles("select_output")
def _select_output(writer: Writer, op: Operator) -> None:
    """Gives X to the output that Mask numbers; the others get nothing."""
    (value,), (mask,) = _locals(writer, op, "X"), _locals(writer, op, "Mask")
    source = key_of(op.block, op.input("X")[0])
    for number, name in enumerate(op.output("Out")):
        if name != EMPTY:
            chosen = f"{value} if {mask}.item() == {number} else None"
            writer.source.add(_assign(writer, op, name, chosen), op)
            for line in writer.lods.pass_on(source, key_of(op.block, name)):
                writer.source.add(line)


# -- arrays ---------------------------------------------------------------------


@handles("write_to_array")
def _write_to_array(writer: Writer, op: Operator) -> None:
    call = writer.source.constant("write_item", write_item)
    array = writer.local(op.block, op.output("Out")[0])
    (position,), (name,) = _locals(writer, op, "I"), op.input("X")
    key = key_of(op.block, name)
    value = writer.local(op.block, name)
    if key in writer.overwritten or key in writer.state:
        value += ".clone()"
    levels = writer.lods.of(key)
    writer.source.add(f"{array} = {call}({array}, {position}, {value}, {levels})", op)


@handles("read_from_array")
def _read_from_array(writer: Writer, op: Operator) -> None:
    call = writer.source.constant("read_item", read_item)
    name = op.output("Out")[0]
    key = key_of(op.block, name)
    (array,), (position,) = _locals(writer, op, "X"), _locals(writer, op, "I")
    like = (_locals(writer, op, "X_W") or ["None"])[0]
    target, levels = writer.local(op.block, name), "_"
    if writer.ragged:
        if key not in writer.lods.fixed:
            writer.lods.names[key] = writer.lods.new()
        levels = writer.lods.names[key]
    writer.source.add(f"{target}, {levels} = {call}({array}, {position}, {like})", op)
    if key in writer.overwritten:
        writer.source.add(f"{target} = {target}.clone()", op)


@handles("lod_array_length")
def _lod_array_length(writer: Writer, op: Operator) -> None:
    call = writer.source.constant("array_length", array_length)
    (array,) = _locals(writer, op, "X")
    writer.source.add(f"{writer.local(op.block, op.output('Out')[0])} = {call}({array})", op)


def _locals(writer: Writer, op: Operator, slot: str) -> Sequence[str]:
    return [writer.local(op.block, name) for name in op.input(slot)]
