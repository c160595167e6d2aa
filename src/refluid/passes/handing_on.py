"""Where all must have what the owners of parameters updated: before the next operator that asks.

sgd(w, w@GRAD)               ->  sgd(w, w@GRAD)               at its owner
average = sum(average, w)        w = replica_broadcast(w)
                                 average = sum(average, w)    everywhere
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from refluid.analysis.uses import is_update, names_read
from refluid.ir.block import Block
from refluid.ir.operator import Operator


@dataclass(frozen=True)
class HandingOn:
    """What the updates `made` have written is handed on before an operator; None: at the end."""

    before: Operator | None
    made: list[Operator]

    def position(self, block: Block) -> int:
        """Where in the block, as it is now."""
        return len(block.ops) if self.before is None else self.before.idx


def handings_on(block: Block, apart: Container[Operator] = ()) -> list[HandingOn]:
    """All of a block, in its order. apart: operators that only the owners have."""
    found: list[HandingOn] = []
    pending: list[Operator] = []
    for op in block.ops:
        made = list(_updates_of(op))
        if not made and op not in apart and pending:
            written = {name for one in pending for name in one.output_arg_names}
            if not written.isdisjoint([*names_read(op), *op.output_arg_names]):
                found.append(HandingOn(op, pending))
                pending = []
        pending = [*pending, *made]
    return [*found, HandingOn(None, pending)] if pending else found


def _updates_of(op: Operator) -> Iterator[Operator]:
    """The operator itself, or those in its blocks."""
    if is_update(op):
        yield op
    for block in op.sub_blocks():
        for one in block.ops:
            yield from _updates_of(one)
