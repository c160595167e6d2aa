"""When a value is last used, and which values share memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from refluid.analysis.uses import Key, key_of, reads, writes
from refluid.ir.block import Block
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, find


def in_slots(op: Operator, keys: Iterable[Key]) -> list[Key]:
    """Variables that an operator reads, in the order of its slots, others after them."""
    places = {name: place for place, name in enumerate(op.input_arg_names)}
    return sorted(keys, key=lambda key: (places.get(key[1], len(places)), key))


def starts_without(op: Operator) -> set[Key]:
    """Variables that an operator reads and that may have no value yet."""
    definition = find(op.type)
    slots = definition.starts_without if definition else []
    return {key_of(op.block, name) for slot in slots for name in op.input(slot)}


def last_uses(
    ops: Sequence[Operator], batches: Mapping[int, Sequence[int]] | None = None
) -> dict[Key, int]:
    """Position of the last operator that reads or writes each variable.

    batches: position at which operators run together -> their own positions.
    """
    runs_at = {own: end for end, positions in (batches or {}).items() for own in positions}
    last: dict[Key, int] = {}
    for position, op in enumerate(ops):
        for key in reads(op) | writes(op):
            last[key] = max(last.get(key, 0), runs_at.get(position, position))
    return last


def unread_slots(
    op: Operator, position: int, last: Mapping[Key, int], live: set[Key]
) -> frozenset[str]:
    """Output slots of a forward operator that no later operator uses and nobody keeps."""
    return frozenset(
        slot
        for slot, names in op.outputs.items()
        if not slot.endswith(GRAD)
        and all(
            last[key] == position and key not in live and key[0] == op.block.idx
            for key in (key_of(op.block, name) for name in names if name != EMPTY)
        )
    )


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
            sources = op.input(in_slot) or op.output(in_slot)
            for index, name in enumerate(op.output(out_slot)):
                if not sources:
                    continue
                source = key_of(op.block, sources[min(index, len(sources) - 1)])
                roots[key_of(op.block, name)] = (roots.get(source, (source, 0))[0], position)
    return roots


def views_to_copy(
    ops: Sequence[Operator], last: dict[Key, int], live: set[Key], repeated: bool = False
) -> set[int]:
    """Positions of operators whose result must be copied because it is a view of something
    that a later operator overwrites while the view is still needed; where the operators are
    `repeated`, every operator comes later than what is kept from one time to the next."""
    roots = view_roots(ops)
    copies: set[int] = set()
    for position, op in enumerate(ops):
        definition = find(op.type)
        for _, target in written_in_place(op, definition) if definition else ():
            for view, (root, maker) in roots.items():
                needed = view in live or last.get(view, -1) > position
                later = maker < position or (repeated and view in live)
                if root == target and view != target and later and needed:
                    copies.add(maker)
    return copies


def overwritten(block: Block) -> set[Key]:
    """Variables of the whole program that some operator changes where they lie, or shares the
    memory of one that is changed."""
    ops = [op for one in block.program.blocks for op in one.ops]
    targets = {
        key for op in ops if (found := find(op.type)) for _, key in written_in_place(op, found)
    }
    roots = view_roots(ops)
    return targets | {view for view, (root, _) in roots.items() if root in targets}
