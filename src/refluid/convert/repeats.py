"""Which operators of a network repeat: the layers of an encoder, the blocks of a stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from refluid.convert.joining import Biases
from refluid.convert.source import Source
from refluid.ir.attributes import CALLSTACK, DEVICE, NAMESCOPE, ROLE, ROLE_VAR
from refluid.ir.operator import Operator

# A repeated part has at least so many operators.
_LEAST = 4
_BESIDE = (ROLE, ROLE_VAR, NAMESCOPE, CALLSTACK, DEVICE)
_RANDOM = ("uniform_random", "gaussian_random")


Place = tuple[int, int]


@dataclass(frozen=True)
class Repeat:
    """`count` times `size` operators from `start` on.

    carried: what a copy takes from the one before, as (name that the first copy reads, name that it
    gives). outer: other variables that all copies read. begins: whether the first operator has a
    parameter. parameters: of each copy, name in the first copy -> its own.
    """

    start: int
    size: int
    count: int
    carried: tuple[tuple[str, str], ...]
    outer: tuple[str, ...]
    begins: bool
    parameters: tuple[dict[str, str], ...]

    @property
    def end(self) -> int:
        """The number of the operator after the last copy."""
        return self.start + self.size * self.count


def find_repeats(source: Source, ops: Sequence[Operator], biases: Biases) -> list[Repeat]:
    """Parts that repeat and stand in no other, those that cover most first chosen."""
    marks = [_mark(source, op, biases) for op in ops]
    found: list[Repeat] = []
    for size, start, stop in sorted(_runs(marks), key=lambda one: (one[1] - one[2], one[0])):
        free = [one for one in found if one.start < stop and start < one.end]
        if not free:
            best = _best(source, ops, biases, size, start, stop)
            if best is not None:
                found.append(best)
    return sorted(found, key=lambda one: one.start)


def _mark(source: Source, op: Operator, biases: Biases) -> object:
    """What is the same of operators that do the same, but for their parameters' values."""
    attrs = sorted((key, repr(one)) for key, one in op.attrs.items() if key not in _BESIDE)
    slots = []
    for slot in sorted(op.inputs):
        for name in op.input(slot):
            value = source.values.get(name)
            slots.append((slot, None if value is None else tuple(value.shape)))
    plain = not op.has_sub_blocks and not op.type.startswith(_RANDOM)
    unlike = None if plain else id(op)
    shapes = [tuple(op.block.var_recursive(one).shape)[1:] for one in op.output_arg_names[:1]]
    return op.type, tuple(attrs), tuple(slots), tuple(shapes), id(op) in biases.added_by, unlike


def _runs(marks: Sequence[object]) -> Iterator[tuple[int, int, int]]:
    """(size, start, stop) of stretches in which what stands `size` further on is the same."""
    total = len(marks)
    numbers = {mark: place for place, mark in enumerate(dict.fromkeys(marks))}
    row = [numbers[mark] for mark in marks]
    for size in range(_LEAST, total // 2 + 1):
        start = None
        for place in range(total - size + 1):
            same = place < total - size and row[place] == row[place + size]
            if same and start is None:
                start = place
            elif not same and start is not None:
                if place - start >= size:
                    yield size, start, place + size
                start = None


def _best(
    source: Source, ops: Sequence[Operator], biases: Biases, size: int, start: int, stop: int
) -> Repeat | None:
    """The cut of a stretch into copies that hands over the fewest values."""
    found = []
    for first in range(start, min(start + size, stop - 2 * size + 1)):
        repeat = _cut(source, ops, biases, size, first, (stop - first) // size)
        if repeat is not None:
            found.append(repeat)
    return min(found, key=_cost, default=None)


def _cost(repeat: Repeat) -> tuple[int, ...]:
    handed = len(repeat.carried), len(repeat.outer)
    return -repeat.count, *handed, not repeat.begins, repeat.start


def _cut(
    source: Source, ops: Sequence[Operator], biases: Biases, size: int, start: int, count: int
) -> Repeat | None:
    """The copies, where each reads of the one before what that reads of the one before it."""
    copies = [ops[start + size * place : start + size * (place + 1)] for place in range(count)]
    places = [_made(copy) for copy in copies]
    parameters: list[dict[str, str]] = [{} for _ in copies]
    carried: dict[str, tuple[Place, str]] = {}
    outer: dict[str, None] = {}
    joined = {id(op) for copy in copies for op in copy} & set(biases.of)
    for copy in copies:
        own = {id(op) for op in copy}
        sums = {biases.added_by[id(op)][0] for op in copy if id(op) in biases.added_by}
        results = {name for op in copy if id(op) in joined for name in op.output_arg_names}
        if {name for name in sums if name in results} != sums or len(own & joined) != len(sums):
            return None
    for place, op in enumerate(copies[0]):
        for at in range(len(op.input_arg_names)):
            names = [copy[place].input_arg_names[at] for copy in copies]
            if not _same_kind(source, names, places, parameters, carried, outer):
                return None
    owned = {name for own in parameters for name in own.values()}
    others = (*ops[:start], *ops[start + size * count :])
    if any(owned & set(op.input_arg_names) for op in others):
        return None
    given = _given(ops, source, start + size * count, places)
    wanted = {_name_at(copies[0], where) for where, _ in carried.values()}
    last = {_name_at(copies[0], places[-1][name]) for name in given or ()}
    if given is None or not last <= wanted or not carried or not parameters[0]:
        return None
    pairs = tuple((first, _name_at(copies[0], where)) for first, (where, _) in carried.items())
    if len({name for _, name in pairs}) != len(pairs):
        return None
    begins = any(name in source.values for name in copies[0][0].input_arg_names)
    return Repeat(start, size, count, pairs, tuple(outer), begins, tuple(parameters))


def _made(copy: Sequence[Operator]) -> dict[str, Place]:
    """Where each result of a copy is made, the last time."""
    return {
        name: (place, at)
        for place, op in enumerate(copy)
        for at, name in enumerate(op.output_arg_names)
    }


def _name_at(copy: Sequence[Operator], where: Place) -> str:
    return copy[where[0]].output_arg_names[where[1]]


def _same_kind(
    source: Source,
    names: Sequence[str],
    places: Sequence[dict[str, Place]],
    parameters: list[dict[str, str]],
    carried: dict[str, tuple[Place, str]],
    outer: dict[str, None],
) -> bool:
    """Whether what the copies read at one place is alike; notes what it is."""
    first = names[0]
    if first in source.values:
        for name, known in zip(names, parameters, strict=True):
            if name not in source.values or known.setdefault(first, name) != name:
                return False
        return len(set(names)) == len(names)
    inside = [made.get(name) for name, made in zip(names, places, strict=True)]
    if inside[0] is not None:
        return len(set(inside)) == 1
    if any(inside):
        return False
    if len(set(names)) == 1:
        outer[first] = None
        return first not in carried
    before = {places[place].get(name) for place, name in enumerate(names[1:])}
    if len(before) != 1 or None in before:
        return False
    where = before.pop()
    assert where is not None
    return carried.setdefault(first, (where, first)) == (where, first) and first not in outer


def _given(
    ops: Sequence[Operator],
    source: Source,
    end: int,
    places: Sequence[dict[str, Place]],
) -> list[str] | None:
    """What is read after the copies, all of the last one; None where more is read."""
    after = {name for op in ops[end:] for name in op.input_arg_names} | set(source.fetches)
    if any(set(made) & after for made in places[:-1]):
        return None
    return [name for name in places[-1] if name in after]
