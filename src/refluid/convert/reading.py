"""Which operators of a network are written, and how often each of its values is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from refluid.analysis.uses import Key, key_of, names_read, names_written
from refluid.convert.source import Source
from refluid.ir.block import Block
from refluid.ir.operator import Operator

Kept = dict[int, list[Operator]]


@dataclass(frozen=True)
class Counting:
    """A loop's counter: its name, first value and limit; what adds 1 to it, and what only asks
    whether it has come to the limit."""

    name: str
    first: int
    limit: str
    step: Operator
    tests: tuple[Operator, ...]
    skipped: frozenset[str]


def needed_ops(source: Source) -> Kept:
    """Block number -> the operators that the fetches depend on, in order."""
    block, kept = source.program.global_block(), Kept()
    _keep(block, source.ops, {key_of(block, name) for name in source.fetches}, kept)
    return kept


def _keep(block: Block, ops: Sequence[Operator], wanted: set[Key], kept: Kept) -> None:
    found = []
    for op in reversed(ops):
        if wanted & {key_of(block, name) for name in (*op.output_arg_names, *names_written(op))}:
            found.append(op)
            wanted |= set(keys_read(op))
            for inner in op.sub_blocks():
                _keep(inner, inner.ops, {*results_of(op, inner), *_outer(inner)}, kept)
    kept[block.idx] = found[::-1]


def _outer(block: Block) -> set[Key]:
    """Variables of enclosing blocks that a block writes."""
    keys = {key_of(block, name) for op in block.ops for name in op.output_arg_names}
    return {key for key in keys if key[0] != block.idx}


def results_of(op: Operator, block: Block) -> Iterator[Key]:
    """What must be known at the end of a block: states, and what is stacked."""
    for name in (*op.attrs.get("states", ()), *op.output("outputs")):
        yield key_of(block, name)


def keys_read(op: Operator) -> list[Key]:
    """What an operator reads, with what its blocks read of others."""
    names: Iterable[str] = op.input_arg_names
    if op.has_sub_blocks:
        names = dict.fromkeys([*op.input_arg_names, *names_read(op)])
    return [key_of(op.block, name) for name in names]


def count_reads(kept: Kept, source: Source) -> Counter[Key]:
    """How often each value is read."""
    found = Counter((0, name) for name in source.fetches)
    for ops in kept.values():
        for op in ops:
            found.update(keys_read(op))
            for inner in op.sub_blocks():
                found.update({*results_of(op, inner), *_outer(inner)})
    return found


def counters_of(kept: Kept) -> dict[int, Counting]:
    """id of a `while` -> its counter, where it only counts up to a limit."""
    found = {}
    for ops in kept.values():
        for op in ops:
            if op.type == "while":
                counter = _counter(op, ops, kept[next(iter(op.sub_blocks())).idx])
                if counter is not None:
                    found[id(op)] = counter
    return found


def _counter(
    op: Operator, around: Sequence[Operator], inner: Sequence[Operator]
) -> Counting | None:
    """The counter, where the condition is `counter < limit` and each round adds 1."""
    (condition,) = op.input("Condition")
    inside = [one for one in inner if condition in one.output_arg_names]
    before = [one for one in around if condition in one.output_arg_names and one is not op]
    tests = (*before, *inside)
    if len(inside) != 1 or len(before) != 1 or {one.type for one in tests} != {"less_than"}:
        return None
    if any(condition in one.input_arg_names for one in (*around, *inner) if one is not op):
        return None
    (name,), (limit,) = inside[0].input("X"), inside[0].input("Y")
    steps = [one for one in inner if name in one.output_arg_names]
    makers = [one for one in around if name in one.output_arg_names and one is not op]
    plain = (
        before[0].input("X") == [name]
        and before[0].input("Y") == [limit]
        and [one.type for one in steps] == ["increment"]
        and steps[0].attrs.get("step") == 1.0
        and [one.type for one in makers] == ["fill_constant"]
        and not any(limit in one.output_arg_names for one in inner)
    )
    if not plain or inner.index(inside[0]) < inner.index(steps[0]):
        return None
    first = int(float(makers[0].attrs.get("str_value") or makers[0].attrs.get("value", 0)))
    return Counting(name, first, limit, steps[0], tests, frozenset((name, condition)))
