"""The memory that a plan will need, from shapes alone: before anything has run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refluid.analysis.ghosts import value_uses
from refluid.analysis.liveness import last_uses, view_roots
from refluid.analysis.uses import Key, key_of, writes
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.runtime.batching import batches
from refluid.runtime.loop_memory import held_by_loop, inside
from refluid.runtime.memory import Memory
from refluid.runtime.operators import held
from refluid.runtime.ownership import Ownership
from refluid.runtime.pairing import Pair, pair_gradients
from refluid.runtime.request import Request
from refluid.runtime.shapes import Shapes
from refluid.runtime.writing import FEEDING


@dataclass(frozen=True)
class Planned:
    """peak: most bytes at once, `state` (parameters and the like) and feeds included, when
    `operator` runs, number `position` of the block."""

    peak: int
    state: int
    operator: str
    position: int


def planned_peak(request: Request, fed: Mapping[str, tuple[int, ...]]) -> Planned:
    """The peak of one run with feeds of these shapes.

    Shapes are inferred from those of the feeds; a size that depends on values counts as the
    first one of the first feed. A loop counts with what it keeps of every round: as many as there
    are time steps, or such that all rows of the first feed are seen once. Of what operators keep
    inside themselves only that of recurrent ones is known.
    """
    block = request.block
    shapes = Shapes(block, fed)
    ops = [op for op in block.ops if op.type not in FEEDING]
    kept = {key_of(block, name) for name in request.fetches}
    state = {
        key
        for op in ops
        for name in op.input_arg_names + op.output_arg_names
        if name != EMPTY and shapes.persistable(key := key_of(op.block, name))
    }
    total = sum(shapes.bytes(key) for key in state)
    start = {key_of(block, name) for name in fed} - state
    peak, position = most_at_once(ops, shapes, start, kept | state, request.memory)
    return Planned(total + peak, total, ops[position].type if ops else "", position)


def most_at_once(
    ops: Sequence[Operator], shapes: Shapes, start: set[Key], kept: set[Key], memory: Memory
) -> tuple[int, int]:
    """The most bytes that variables outside of `kept` take, and the position where."""
    groups = batches(ops)
    pairs = pair_gradients(ops)
    last = last_uses(ops, groups)
    ends = last | (value_uses(ops, last) if memory.frees else {})
    owner = Ownership(ops, ends, kept | start | held(ops), pairs, in_place=memory.in_place)
    roots = {view: root for view, (root, _) in view_roots(ops).items()}
    until = _until(ops, ends, roots, pairs)
    live = {key: shapes.bytes(key) for key in start}
    best, where = sum(live.values()), 0
    for position, op in enumerate(ops):
        reuse = owner.reusable(op, position)
        for key in writes(op):
            root = roots.get(key, key)
            if root in live or root in kept:
                continue
            if reuse is not None:
                source = key_of(op.block, reuse[1])
                roots[key] = root = roots.get(source, source)
                until[root] = max(until.get(root, 0), until.get(key, 0))
                reuse = None
                continue
            live[root] = shapes.bytes(root) + held_by_loop(op, root, shapes)
        total = sum(live.values()) + inside(op, shapes, kept, most_at_once)
        if total > best:
            best, where = total, position
        if memory.frees:
            for key in [key for key in live if until.get(key, -1) <= position]:
                if key not in kept:
                    del live[key]
    return best, where


def _until(
    ops: Sequence[Operator],
    ends: Mapping[Key, int],
    roots: Mapping[Key, Key],
    pairs: Mapping[int, Pair],
) -> dict[Key, int]:
    """The position after which the memory of each variable is free."""
    until: dict[Key, int] = {}
    for key, position in ends.items():
        root = roots.get(key, key)
        until[root] = max(until.get(root, 0), position)
    for pair in pairs.values():
        op = ops[pair.forward]
        for name in op.input_arg_names + op.output_arg_names:
            root = roots.get(key_of(op.block, name), key_of(op.block, name))
            until[root] = max(until.get(root, 0), pair.gradient)
    return until
