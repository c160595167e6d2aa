"""g1 = .. ; g2 = .. ; update(g1) ; update(g2) -> g1 = .. ; update(g1) ; g2 = .. ; update(g2)

The memory of a gradient is free as soon as its parameter is updated, and serves for the next one.
Updates come in groups, each of at least `GROUP` bytes of gradients, for they are done together:
`analysis.batching` has the same groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refluid.analysis.update_groups import GROUP, gradient_bytes
from refluid.analysis.uses import Key, reads, writes
from refluid.ir.attributes import OpRole
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.effects import OUTSIDE
from refluid.ops.registry import find
from refluid.passes.data_parallel import gradient_block
from refluid.passes.protocol import Report


@dataclass(frozen=True)
class UpdateGroups:
    """least: bytes of gradients that are waited for before an update."""

    least: int = GROUP


def is_useful(program: Program, groups: UpdateGroups) -> bool:
    """Whether the gradients are more than one group."""
    return sum(map(gradient_bytes, gradient_block(program).ops)) > groups.least


def early_updates(program: Program, groups: UpdateGroups) -> Report:
    """Has what belongs to the optimizer run as soon as its gradients are there, in place."""
    block = gradient_block(program)
    moved = [position for position, op in enumerate(block.ops) if _movable(op)]
    places = _grouped(block.ops, moved, _earliest(block.ops, set(moved)), groups.least)
    order = {position: (position, 0, 0) for position in range(len(block.ops))}
    order |= {position: (places[position], 1, position) for position in moved}
    places_now = sorted(order, key=order.__getitem__)
    Editor(block).assign([block.ops[position] for position in places_now])
    return Report(changed=True)


def _movable(op: Operator) -> bool:
    """Whether it is the optimizer's, and nothing but its inputs and outputs matters."""
    definition = find(op.type)
    return (
        definition is not None
        and bool(op.role & OpRole.OPTIMIZE)
        and not definition.inline
        and not definition.effects & OUTSIDE
        and not op.has_sub_blocks
    )


def _earliest(ops: Sequence[Operator], moved: set[int]) -> dict[int, int]:
    """For each operator that moves, the position after which it may stand."""
    written: dict[Key, int] = {}
    used: dict[Key, int] = {}
    places: dict[int, int] = {}
    for position, op in enumerate(ops):
        read, makes = reads(op), writes(op)
        place = position
        if position in moved:
            before = [written.get(key, -1) for key in read | makes]
            before += [used.get(key, -1) for key in makes]
            place = places[position] = max(before, default=-1)
        for key in read:
            used[key] = max(used.get(key, -1), place)
        for key in makes:
            written[key] = max(written.get(key, -1), place)
    return places


def _grouped(
    ops: Sequence[Operator], moved: Sequence[int], places: dict[int, int], group: int
) -> dict[int, int]:
    """The places, later ones where fewer bytes of gradients than a group wait to be used.

    None is after the operator's own position, where others may rely on it.
    """
    found: dict[int, int] = {}
    waiting: list[int] = []
    size = 0
    for position in sorted(moved, key=lambda one: (places[one], one)):
        full = size >= group or any(one < places[position] for one in waiting)
        if waiting and full:
            found |= dict.fromkeys(waiting, places[waiting[-1]])
            waiting, size = [], 0
        waiting.append(position)
        size += gradient_bytes(ops[position])
    return found | dict.fromkeys(waiting, places[waiting[-1]])
