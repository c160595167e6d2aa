"""Which operators are done at once: neighbours of one type with one setting, as optimizers are."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.ir.attributes import COMMON
from refluid.ir.operator import Operator
from refluid.ops.registry import find
from refluid.runtime.liveness import reads, writes


def batches(ops: Sequence[Operator]) -> dict[int, list[int]]:
    """Position of the last operator of each batch -> positions of all of them.

    Operators may be done at once when nothing between the first and the last of them reads or
    writes what they write, and they overwrite their inputs in place.
    """
    groups: dict[int, list[int]] = {}
    current: list[int] = []
    for position, op in enumerate(ops):
        if current and not _joins(ops, current, op):
            _close(groups, current)
            current = []
        if current or _batchable(op):
            current.append(position)
    _close(groups, current)
    return groups


def _close(groups: dict[int, list[int]], current: list[int]) -> None:
    if len(current) > 1:
        groups[current[-1]] = list(current)


def _batchable(op: Operator) -> bool:
    definition = find(op.type)
    if definition is None or definition.many is None:
        return False
    return all(
        op.output(out_slot) == op.input(in_slot) for out_slot, in_slot in definition.mutates.items()
    )


def _joins(ops: Sequence[Operator], current: Sequence[int], op: Operator) -> bool:
    first = ops[current[0]]
    if op.type != first.type or not _batchable(op) or _settings(op) != _settings(first):
        return False
    written = set().union(*(writes(ops[index]) for index in current))
    return not written & (reads(op) | writes(op))


def _settings(op: Operator) -> tuple[object, ...]:
    shape = tuple((slot, len(names)) for slot, names in op.inputs.items())
    attrs = tuple(
        (name, str(value)) for name, value in sorted(op.attrs.items()) if name not in COMMON
    )
    return shape, attrs
