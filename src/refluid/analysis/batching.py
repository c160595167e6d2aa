"""Which operators are done at once: those of one type with one setting, as optimizers are."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from refluid.analysis.update_groups import GROUP, gradient_bytes
from refluid.analysis.uses import Key, reads, writes
from refluid.core.dtypes import VarType
from refluid.ir.attributes import COMMON
from refluid.ir.operator import Operator
from refluid.ops.registry import find

UpdateSetting = tuple[object, ...]


@dataclass
class UpdateBatch:
    """Operators that run where the last of them stands."""

    positions: list[int] = field(default_factory=list)
    waiting: int = 0
    read: set[Key] = field(default_factory=set)
    written: set[Key] = field(default_factory=set)

    def add(
        self, position: int, op: Operator, read: AbstractSet[Key], written: AbstractSet[Key]
    ) -> None:
        self.positions.append(position)
        if not has_rows(op):  # else nobody knows how many rows there are; the table has more
            self.waiting += gradient_bytes(op)
        self.read |= read
        self.written |= written

    def stands_before(self, read: AbstractSet[Key], written: AbstractSet[Key]) -> bool:
        """Whether an operator that reads and writes these must come after the batch."""
        return bool(self.written & (read | written) or self.read & written)


def batches(ops: Sequence[Operator], *, most: int = GROUP) -> dict[int, list[int]]:
    """Position of the last operator of each batch -> positions of all of them.

    Operators may be done at once when nothing between the first and the last of them reads or
    writes what they write, or writes what they read, and they overwrite their inputs in place.
    A batch ends with `most` bytes of gradients, which all wait for its last operator.
    """
    open_: dict[UpdateSetting, UpdateBatch] = {}
    done: list[UpdateBatch] = []
    for position, op in enumerate(ops):
        if not open_ and not _batchable(op):
            continue
        read, written = reads(op), writes(op)
        setting = _setting(op) if _batchable(op) else None
        for other in [one for one, batch in open_.items() if batch.stands_before(read, written)]:
            done.append(open_.pop(other))
        if setting is not None:
            batch = open_.setdefault(setting, UpdateBatch())
            batch.add(position, op, read, written)
            if batch.waiting >= most:
                done.append(open_.pop(setting))
    groups = [batch.positions for batch in (*done, *open_.values()) if len(batch.positions) > 1]
    return {positions[-1]: positions for positions in groups}


def _batchable(op: Operator) -> bool:
    definition = find(op.type)
    if definition is None or definition.many is None:
        return False
    return all(
        op.output(out_slot) == op.input(in_slot) for out_slot, in_slot in definition.mutates.items()
    ) and (definition.many_rows or not has_rows(op))


def has_rows(op: Operator) -> bool:
    """Whether one of its inputs is rows of a table instead of a tensor."""
    found = map(op.block.find_var_recursive, op.input_arg_names)
    return any(var is not None and var.type == VarType.SELECTED_ROWS for var in found)


def _setting(op: Operator) -> UpdateSetting:
    shape = tuple((slot, len(names)) for slot, names in op.inputs.items())
    attrs = tuple(
        (name, str(value)) for name, value in sorted(op.attrs.items()) if name not in COMMON
    )
    return op.type, has_rows(op), shape, attrs
