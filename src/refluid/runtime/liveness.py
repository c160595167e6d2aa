"""What operators read and write, when a value is last used, and which values share memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, find

EMPTY = "@EMPTY@"
Key = tuple[int, str]


def key_of(block: Block, name: str) -> Key:
    """Identity of a variable: the block that declares it, and its name.

    A name that nobody declares belongs to the block that uses it.
    """
    home: Block | None = block
    while home is not None:
        if name in home.vars:
            return home.idx, name
        home = home.parent
    return block.idx, name


def reads(op: Operator) -> set[Key]:
    """Variables that an operator reads, those of its sub-blocks included."""
    found = {key_of(op.block, name) for name in op.input_arg_names if name != EMPTY}
    for block in op.sub_blocks():
        for inner in block.ops:
            found |= {key for key in reads(inner) if key[0] != block.idx}
    return found


def writes(op: Operator) -> set[Key]:
    """Variables that an operator writes, those of its sub-blocks included."""
    found = {key_of(op.block, name) for name in op.output_arg_names if name != EMPTY}
    for block in op.sub_blocks():
        for inner in block.ops:
            found |= {key for key in writes(inner) if key[0] != block.idx}
    return found


def last_uses(ops: Sequence[Operator]) -> dict[Key, int]:
    """Position of the last operator that reads or writes each variable."""
    last: dict[Key, int] = {}
    for position, op in enumerate(ops):
        for key in reads(op) | writes(op):
            last[key] = position
    return last


def written_in_place(op: Operator, definition: OperatorDef) -> Iterable[tuple[str, Key]]:
    """(input slot, variable) for each variable that the operator overwrites where it lies."""
    for out_slot, in_slot in definition.mutates.items():
        sources = op.input(in_slot)
        for position, name in enumerate(op.output(out_slot)):
            if position < len(sources) and sources[position] == name:
                yield in_slot, key_of(op.block, name)


def view_roots(ops: Sequence[Operator]) -> dict[Key, tuple[Key, int]]:
    """For each variable that may share memory with another: that one, and who made it share."""
    roots: dict[Key, tuple[Key, int]] = {}
    for position, op in enumerate(ops):
        definition = find(op.type)
        if definition is None:
            continue
        for out_slot, in_slot in definition.views.items():
            sources = op.input(in_slot)
            for index, name in enumerate(op.output(out_slot)):
                if not sources:
                    continue
                source = key_of(op.block, sources[min(index, len(sources) - 1)])
                roots[key_of(op.block, name)] = (roots.get(source, (source, 0))[0], position)
    return roots


def views_to_copy(ops: Sequence[Operator], last: dict[Key, int], kept: set[Key]) -> set[int]:
    """Positions of operators whose result must be copied because it is a view of something
    that a later operator overwrites while the view is still needed."""
    roots = view_roots(ops)
    copies: set[int] = set()
    for position, op in enumerate(ops):
        definition = find(op.type)
        for _, target in written_in_place(op, definition) if definition else ():
            for view, (root, maker) in roots.items():
                needed = view in kept or last.get(view, -1) > position
                if root == target and view != target and maker < position and needed:
                    copies.add(maker)
    return copies
