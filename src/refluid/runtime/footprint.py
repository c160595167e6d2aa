"""The memory that a plan will need, from shapes alone: before anything has run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refluid.core.dtypes import VarType, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import find
from refluid.runtime.batching import batches
from refluid.runtime.control import FEEDING
from refluid.runtime.liveness import EMPTY, Key, key_of, last_uses, view_roots, writes
from refluid.runtime.ownership import Ownership
from refluid.runtime.pairing import Pair, pair_gradients

if TYPE_CHECKING:
    from refluid.runtime.codegen import Request

_SIZED = {VarType.LOD_TENSOR, VarType.SELECTED_ROWS}


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
    first one of the first feed. A sub-block counts as one round of it. What operators keep inside
    themselves isn't known.
    """
    block = request.block
    sizes = _Sizes(block, fed)
    ops = [op for op in block.ops if op.type not in FEEDING]
    kept = {key_of(block, name) for name in request.fetches}
    state = {
        key
        for op in ops
        for name in op.input_arg_names + op.output_arg_names
        if name != EMPTY and sizes.persistable(key := key_of(op.block, name))
    }
    held = sum(sizes.of(key) for key in state)
    start = {key_of(block, name) for name in fed} - state
    peak, position = _peak(ops, sizes, start, kept | state, request.free_early)
    return Planned(held + peak, held, ops[position].type if ops else "", position)


class _Sizes:
    """Bytes of variables."""

    def __init__(self, block: Block, fed: Mapping[str, tuple[int, ...]]) -> None:
        self.blocks = _inferred(block, fed).blocks
        self.unknown = next((shape[0] for shape in fed.values() if shape), 1)

    def persistable(self, key: Key) -> bool:
        var = self.blocks[key[0]].vars.get(key[1])
        return var is not None and var.persistable

    def of(self, key: Key) -> int:
        """Bytes of a variable; 0 for what is no tensor or isn't described."""
        var = self.blocks[key[0]].vars.get(key[1])
        if var is None or var.type not in _SIZED or not var.has_description():
            return 0
        count = math.prod(self.unknown if size < 0 else size for size in var.shape)
        return count * to_torch(var.dtype).itemsize


def _inferred(block: Block, fed: Mapping[str, tuple[int, ...]]) -> Program:
    """A copy of the program with the shapes that its variables have for these feeds."""
    program = block.program.clone()
    for name, shape in fed.items():
        var = program.blocks[block.idx].find_var_recursive(name)
        if var is not None:
            var.describe(shape=shape, dtype=None)
    for one in program.blocks:
        for op in one.ops:
            definition = find(op.type)
            if definition is not None:
                with suppress(EnforceNotMet):  # what can't be inferred stays as declared
                    definition.infer(op)
    return program


def _peak(
    ops: Sequence[Operator], sizes: _Sizes, start: set[Key], kept: set[Key], free_early: bool
) -> tuple[int, int]:
    """The most bytes that variables outside of `kept` take, and the position where."""
    groups = batches(ops)
    pairs = pair_gradients(ops)
    last = last_uses(ops, groups)
    owner = Ownership(ops, last, kept | start, pairs)
    roots = {view: root for view, (root, _) in view_roots(ops).items()}
    until = _until(ops, last, roots, pairs)
    live = {key: sizes.of(key) for key in start}
    best, where = sum(live.values()), 0
    for position, op in enumerate(ops):
        reuse = owner.reusable(op, position)
        inner = sum(_inside(block, sizes, kept) for block in op.sub_blocks())
        for key in writes(op):
            root = roots.get(key, key)
            if root in live or root in kept:
                continue
            if reuse is not None:
                roots[key] = root = roots.get(
                    key_of(op.block, reuse[1]), key_of(op.block, reuse[1])
                )
                until[root] = max(until.get(root, 0), until.get(key, 0))
                reuse = None
                continue
            live[root] = sizes.of(root)
        total = sum(live.values()) + inner
        if total > best:
            best, where = total, position
        if free_early:
            dead = [key for key in live if until.get(key, -1) <= position and key not in kept]
            for key in dead:
                del live[key]
    return best, where


def _inside(block: Block, sizes: _Sizes, kept: set[Key]) -> int:
    """The peak of the sub-block's own variables."""
    return _peak(block.ops, sizes, set(), kept, True)[0]


def _until(
    ops: Sequence[Operator],
    last: Mapping[Key, int],
    roots: Mapping[Key, Key],
    pairs: Mapping[int, Pair],
) -> dict[Key, int]:
    """The position after which the memory of each variable is free."""
    until: dict[Key, int] = {}
    for key, position in last.items():
        root = roots.get(key, key)
        until[root] = max(until.get(root, 0), position)
    for pair in pairs.values():
        op = ops[pair.forward]
        for name in op.input_arg_names + op.output_arg_names:
            root = roots.get(key_of(op.block, name), key_of(op.block, name))
            until[root] = max(until.get(root, 0), pair.gradient)
    return until
