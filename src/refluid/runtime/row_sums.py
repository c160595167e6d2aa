"""d_W = sum of X_tᵀ·d_Y_t over the rounds  ->  d_W = Xᵀ·d_Y of the rows of all rounds

The gradient block of a loop computes a gradient of the whole weight in each round, to add them all
up. One that is a sum over rows (`Facts.sums_rows`) waits instead: each round keeps the rows that it
would be computed of, and one call of the gradient operator after the loop has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from refluid.analysis.uses import key_of, reads, writes
from refluid.core.accumulator import Accumulator, joined_rows
from refluid.ir.block import Block
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.registry import find
from refluid.runtime.calls import keywords
from refluid.runtime.trees import Name
from refluid.runtime.writing import Writing

_SUFFIX = "_grad"


class RowSum:
    """The gradient of one weight by all rounds of a loop.

    compute: gives it of values. rows: for each value, whether it has rows; of others, all rounds
    have the same. Rounds whose rows are more numbers than the weight has don't wait: a sum costs
    less than joining them.
    """

    __slots__ = ("_compute", "_rows", "_sum", "_waiting")

    def __init__(self, compute: Callable[..., Any], rows: Sequence[bool]) -> None:
        self._compute, self._rows = compute, rows
        self._sum = Accumulator()
        self._waiting: list[tuple[Any, ...]] = []

    def append(self, values: tuple[Any, ...]) -> None:
        """One round: what the gradient operator is given, and the weight."""
        *given, weight = values
        rows = [one for one, has in zip(given, self._rows, strict=True) if has]
        if not all(isinstance(one, torch.Tensor) and one.dim() for one in rows):
            self._sum.add(self._compute(*given))
            return
        if sum(one.numel() for one in rows) >= weight.numel():
            self._sum.add(self._compute(*given))
            return
        if self._waiting and not self._alike(given):
            self._join()
        self._waiting.append(tuple(given))

    def _alike(self, given: Sequence[Any]) -> bool:
        """Whether its rows are like those that wait."""
        pairs = zip(given, self._waiting[-1], self._rows, strict=True)
        return all(
            one.shape[1:] == other.shape[1:] and one.dtype is other.dtype
            for one, other, has in pairs
            if has
        )

    def _join(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._sum.add(self._compute(*joined_rows(waiting, self._rows)))

    def result(self, like: Any, rows: bool = False) -> Any:
        """The gradient; where there was no round zeros shaped as `like`, or none of its `rows`."""
        if self._waiting:
            self._join()
        return self._sum.result(like, rows)


@dataclass(frozen=True)
class RowsLater:
    """A gradient of a weight that waits. op: the gradient operator, in the block of the loop.

    output: its slot for that gradient. slots: of each input slot, whether it has rows.
    """

    op: Operator
    weight: str
    output: str
    slots: Mapping[str, bool]

    @property
    def names(self) -> list[str]:
        """The variables whose values wait."""
        return [name for slot in self.slots for name in self.op.input(slot)]

    def maker(self, writer: Writing) -> Callable[[], RowSum]:
        """Makes the sum."""
        definition = find(self.op.type)
        assert definition is not None and definition.body is not None
        others = {slot.name for slot in definition.outputs} - {self.output}
        options = keywords(self.op, definition, frozenset(others))
        place = [slot.name for slot in definition.outputs].index(self.output)
        body = writer.kernel(self.op, definition.body)
        return partial(RowSum, partial(_one_of, body, options, place), tuple(self.slots.values()))

    def values(self, writer: Writing) -> tuple[Name | None, ...]:
        """What a round keeps: a local variable for each input, and the weight."""
        block = self.op.block
        given = [writer.local(block, (self.op.input(slot) or [""])[0]) for slot in self.slots]
        return (*given, writer.local(block, self.weight))


def _one_of(body: Callable[..., Any], options: Mapping[str, Any], place: int, *values: Any) -> Any:
    """One result of a gradient operator."""
    found = body(*values, **options)
    return found[place] if isinstance(found, list | tuple) else found


def rows_later(
    block: Block, summed: Sequence[str], paired: Mapping[int, Any]
) -> dict[str, RowsLater]:
    """Weight -> how its gradient waits, of variables whose gradients a loop adds up.

    block: the gradient block. paired: positions there of operators that take a recording.
    """
    found: dict[str, RowsLater] = {}
    for name in summed:
        key = key_of(block, name + GRAD)
        makers = [n for n, op in enumerate(block.ops) if key in writes(op)]
        if len(makers) != 1 or makers[0] in paired or any(key in reads(op) for op in block.ops):
            continue
        for one in _of(block.ops[makers[0]], name):
            if _stay(block, makers[0], one.names):
                found[name] = one
    return found


def _of(op: Operator, weight: str) -> Iterator[RowsLater]:
    """How an operator's gradient of a weight waits, if it is a sum over rows."""
    definition, forward_op = find(op.type), _forward_of(op)
    forward = find(forward_op.type) if forward_op is not None else None
    if definition is None or forward_op is None or forward is None:
        return
    if not definition.is_plain({"need"}) or any(slot.many for slot in definition.inputs):
        return
    found = forward.sums_rows
    for slot, rows in (found(forward_op) if callable(found) else found).items():
        if op.input(slot) != [weight] or op.output(slot + GRAD) != [weight + GRAD]:
            continue
        beside = {one.name for one in forward.inputs} - {rows}
        slots = {
            one.name: one.name not in beside and bool(op.input(one.name))
            for one in definition.inputs
        }
        yield RowsLater(op, weight, slot + GRAD, slots)


def _forward_of(op: Operator) -> Operator | None:
    """The operator of the loop's block that it is the gradient of."""
    number = op.block.forward_block_idx
    assert number is not None  # it is in a gradient block
    for one in op.block.program.blocks[number].ops:
        taken = {slot: names for slot, names in one.inputs.items() if op.input(slot)}
        if (
            one.type + _SUFFIX == op.type
            and taken
            and all(op.input(slot) == names for slot, names in taken.items())
        ):
            return one
    return None


def _stay(block: Block, position: int, names: Sequence[str]) -> bool:
    """Whether variables still have the values at the end that an operator there was given."""
    later = {key for op in block.ops[position:] for key in writes(op)}
    return not any(key_of(block, name) in later for name in names)
