"""Loops that count: a `while` whose rounds are known before the first one.

while (Condition=c) {           for k in rounds(c, i, n) {
    ...                    ->       ...
    i = increment(i)            }
    c = less_than(i, n)
}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from refluid.analysis.uses import Key, find_variable, key_of, reads, writes
from refluid.core.dtypes import VarType
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ops.registry import facts_of


@dataclass(frozen=True)
class CountedLoop:
    """A loop that goes on while `place + ahead < limit`, place as at the round's beginning.

    step: what a round adds to the place. idle: operators that do nothing but count. more: by how
    much what is read or written of an array is beyond the place, by operator. inside: whether
    other operators of a round read the place, so that it is counted as a tensor too.
    """

    place: Key
    limit: Key
    step: int
    ahead: int
    idle: frozenset[Operator]
    more: Mapping[Operator, int]
    inside: bool


def counted(op: Operator, needed: Set[Key]) -> CountedLoop | None:
    """How a `while` counts, or None. needed: what its gradient block reads of a round."""
    block: Block = op.attr("sub_block")
    condition = key_of(op.block, op.input("Condition")[0])
    tests = _tests(block, condition, needed)
    if not tests:
        return None
    last = tests[-1]
    compared, limit = (key_of(block, last.input(slot)[0]) for slot in "XY")
    written = {key for one in block.ops for key in writes(one)}
    if limit in written or not _is_whole(block, limit):
        return None
    for name in op.input("X"):
        place = key_of(op.block, name)
        if place in written and _is_whole(block, place):
            course = _RoundCourse(block, place)
            more = course.before[last].get(compared)
            if more is not None and course.step > 0:
                more += facts_of(last.type).less_by or 0
                return _counted(course, limit, more, tests, needed)
    return None


def _tests(block: Block, condition: Key, needed: Set[Key]) -> list[Operator]:
    """The comparison that the condition is at the end of a round, last, after copies of it.

    Nothing where that isn't so, or where anything else looks at it.
    """
    found: list[Operator] = []
    key = condition
    for op in reversed(block.ops):
        if key not in writes(op):
            continue
        if (key != condition and key[0] != block.idx) or key in needed or op.has_sub_blocks:
            return []
        others = [one for one in _within(block) if one is not op and one not in found]
        if any(key in reads(one) | writes(one) for one in others):
            return []
        found.append(op)
        if facts_of(op.type).less_by is not None:
            return found
        if _added(op) != 0:
            return []
        key = key_of(block, op.input("X")[0])
    return []


class _RoundCourse:
    """How a place goes through a round.

    before: by how much more each variable is than the place at the round's beginning, by operator.
    steps: operators that make such values. step: what the round adds; 0 where that isn't known.
    """

    def __init__(self, block: Block, place: Key) -> None:
        self.block, self.place = block, place
        self.before: dict[Operator, Mapping[Key, int]] = {}
        self.steps: set[Operator] = set()
        more: dict[Key, int] = {place: 0}
        for op in block.ops:
            self.before[op] = dict(more)
            added = _added(op)
            known = None if added is None else more.get(key_of(block, op.input("X")[0]))
            for key in writes(op):
                more.pop(key, None)
            if added is not None and known is not None:
                more[key_of(block, op.output("Out")[0])] = known + added
                self.steps.add(op)
        self.step = more.get(place, 0)


def _added(op: Operator) -> int | None:
    """What an operator adds to its X, where that is known and whole."""
    ahead = facts_of(op.type).ahead
    more = ahead(op) if ahead is not None else None
    return int(more) if more is not None and float(more).is_integer() else None


def _counted(
    course: _RoundCourse, limit: Key, ahead: int, tests: list[Operator], needed: Set[Key]
) -> CountedLoop:
    """Sorts out who needs the place as a tensor."""
    block, place, steps = course.block, course.place, course.steps
    counting = {place}.union(*(writes(one) for one in steps))
    inside = any(key[0] != block.idx for key in counting - {place}) or bool(counting & needed)
    more: dict[Operator, int] = {}
    for op in _within(block):
        if op in steps or op in tests or not reads(op) & counting:
            continue
        slot = facts_of(op.type).position
        index = key_of(block, op.input(slot)[0]) if slot else None
        known = course.before.get(op, {}).get(index) if index is not None else None
        if known is not None and reads(op) & counting == {index}:
            more[op] = known
        else:
            inside = True
    idle = frozenset(tests if inside else steps.union(tests))
    return CountedLoop(place, limit, course.step, ahead, idle, {} if inside else more, inside)


def _is_whole(block: Block, key: Key) -> bool:
    """Whether a variable is one integer, and belongs to the run."""
    var = find_variable(block.program.blocks[key[0]], key[1])
    return (
        var is not None
        and key[0] != block.idx
        and not var.persistable
        and var.dtype in (VarType.INT32, VarType.INT64)
        and tuple(var.shape) in ((), (1,))
    )


def _within(block: Block) -> Iterator[Operator]:
    """The operators of a block, and those of blocks inside it."""
    for op in block.ops:
        yield op
        for inner in op.sub_blocks():
            yield from _within(inner)
