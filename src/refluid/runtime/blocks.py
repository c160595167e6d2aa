"""Blocks inside loops and branches, and what their gradient blocks take back of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from refluid.analysis.uses import Key, key_of, reads, writes
from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.ir.block import Block
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.runtime.operators import write_operators
from refluid.runtime.pairing import Pair
from refluid.runtime.steps import Bind, Step
from refluid.runtime.tape import Tape
from refluid.runtime.trees import IGNORED, Name, Tree, copied, method
from refluid.runtime.writing import CONTROL, Writing


def enter(writer: Writing, block: Block, name: str, value: Tree) -> None:
    """Gives a variable of a sub-block the value with which the block starts."""
    writer.entered.add(key_of(block, name))
    writer.source.add(Bind(writer.local(block, name), value))


def append(values: Name | None, value: Tree, op: Operator | None = None) -> Step:
    """Appends to a list."""
    return Bind(None, method(values, "append", value), op=op)


def write_sub_block(
    writer: Writing, block: Block, live: set[Key], pairs: Mapping[int, Pair]
) -> None:
    """Writes a block that a loop or a branch runs; `live` of its variables are used after it.

    What the block reads before anything wrote it starts as None, as in a new scope.
    """
    own = {block.idx, block.forward_block_idx}
    written: set[Key] = set()
    for op in block.ops:
        touched = reads(op) | writes(op) if op.type in CONTROL else reads(op)
        for key in sorted(touched - written):
            new = key[0] in own and key not in writer.variables.names
            if (block.idx == key[0] or new) and key not in writer.entered:
                writer.source.add(Bind(writer.local(block, key[1]), None))
        written |= writes(op)
    outside = {key for op in block.ops for key in reads(op) | writes(op) if key[0] != block.idx}
    write_operators(writer, block, block.ops, live | outside | writer.entered, pairs)


def write_forward(
    writer: Writing,
    tape: Tape,
    record: Callable[[Tree], Step],
    results: Collection[Key] = (),
) -> None:
    """The sub-block once, and `record` as the step that keeps what its gradient needs.

    results: variables of the sub-block that are used after it.
    """
    source, variables = writer.source, writer.variables
    for key in tape.carried:
        name = variables.names[key]
        value = copied(name) if key in variables.overwritten else name
        source.add(Bind(tape.before(variables, key), value))
    write_sub_block(writer, tape.block, {*tape.keys, *results}, tape.forward_pairs)
    if tape.wanted:
        for key in tape.keys:
            if key in variables.names and key in variables.overwritten:
                name = variables.names[key]
                source.add(Bind(name, copied(name)))
        source.add(record(tape.kept(source, variables, writer.lods)))
    writer.tapes[tape.block.idx] = tape


def write_gradient(
    writer: Writing, op: Operator, record: Tree, wanted: Iterable[str], others: Iterable[str] = ()
) -> None:
    """The gradient block once, after taking back what the forward block kept in `record`.

    wanted: forward variables whose gradients are used after it. others: its own variables.
    """
    block = op.attr("sub_block")
    tape = writer.tapes.get(block.forward_block_idx)
    if tape is None:
        raise EnforceNotMet(_without_forward(op))
    names = tape.targets(writer.variables, writer.lods)
    writer.source.add(Bind(names or IGNORED, record, op=op))
    live = {key_of(block, name) for name in (*(one + GRAD for one in wanted), *others)}
    write_sub_block(writer, block, live, tape.gradient_pairs)


def _without_forward(op: Operator) -> str:
    return (
        f"{op.type} needs what {op.type.removesuffix('_grad')} computed in the same run, but that "
        "operator is not part of the program that is run.\n" + op.made_at
    )


def fix_lods(writer: Writing, op: Operator) -> None:
    """Gives the outer variables that the sub-block writes a LoD that can be assigned."""
    if writer.lods.ragged:
        for key in sorted(writes(op)):
            writer.lods.fix(key)


def gradient_names(op: Operator, slot: str) -> list[tuple[str, str]]:
    """(variable, its gradient) of an input slot, for the gradients that are asked for."""
    pairs = zip(op.input(slot), op.output(slot + GRAD), strict=False)
    return [(name, grad) for name, grad in pairs if grad != EMPTY]


def pass_lods(writer: Writing, op: Operator, pairs: Iterable[tuple[str, str]]) -> None:
    """A gradient has the LoD of its variable."""
    for name, grad in pairs:
        writer.lods.pass_on(key_of(op.block, name), key_of(op.block, grad))


def inner_gradient(writer: Writing, op: Operator, name: str) -> Name | None:
    """What the gradient block calls the gradient of a forward variable; None if it makes none."""
    block = op.attr("sub_block")
    return writer.variables.names.get(key_of(block, name + GRAD))


def is_rows(op: Operator, grad: str) -> bool:
    """Whether a gradient that an operator gives is rows of a table."""
    var = op.block.find_var_recursive(grad)
    return var is not None and var.type == VarType.SELECTED_ROWS
