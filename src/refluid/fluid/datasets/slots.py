"""What the variables of a program, or a DataFeedDesc, say of the slots of a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from refluid.core.dtypes import VarType, dtype_name
from refluid.feed.multislot.parsing import LineSlot
from refluid.ir.variable import Variable

# Fluid's names of the element types in a DataFeedDesc.
PROTO_TYPES = {VarType.INT64: "uint64", VarType.FP32: "float"}
_KINDS = {"uint64": "int64", "float": "float32"}


@dataclass(frozen=True)
class Fed:
    """A slot and the tensor made of it: `shape` is that of one row, or of one value with LoD."""

    slot: LineSlot
    shape: tuple[int, ...]
    lod_level: int


def slot_of(var: Variable) -> Fed:
    """The slot that a variable is fed from.

    lod_level 0 is a dense slot: as many values per line as its sizes after the first multiply to.
    Raises ValueError for other types than float32 and int64, for more than one level, and for a
    dense variable with an unknown size after the first.
    """
    if var.dtype not in PROTO_TYPES:
        raise ValueError(
            f"a dataset feeds float32 and int64 only; variable {var.name!r} is "
            f"{dtype_name(var.dtype)}"
        )
    if var.lod_level > 1:
        raise ValueError(
            f"a line of a dataset has one level of sequences; variable {var.name!r} has "
            f"lod_level={var.lod_level}"
        )
    kind, shape = _KINDS[PROTO_TYPES[var.dtype]], tuple(int(size) for size in var.shape[1:])
    if var.lod_level:
        shape = tuple(max(size, 1) for size in shape)
        return Fed(LineSlot(var.name, kind, 0, prod(shape)), shape, 1)
    if any(size < 0 for size in shape):
        raise ValueError(
            f"variable {var.name!r} of shape {list(var.shape)} can't be fed by a dataset: only its "
            "first size may be unknown"
        )
    return Fed(LineSlot(var.name, kind, prod(shape)), shape, 0)


def slots_of_desc(desc: Any) -> list[Fed]:
    """The slots of a DataFeedDesc message; those that aren't used have `slot.used` False.

    Raises ValueError for another type than "uint64" or "float".
    """
    found = []
    for one in desc.multi_slot_desc.slots:
        if one.type not in _KINDS:
            raise ValueError(
                f"slot {one.name!r} has type {one.type!r}; a DataFeedDesc knows uint64 and float"
            )
        shape = tuple(size for size in one.shape if size > 0) or (1,)
        width = prod(shape) if one.is_dense else 0
        slot = LineSlot(one.name, _KINDS[one.type], width, 1, bool(one.is_used))
        found.append(Fed(slot, shape if one.is_dense else (1,), 0 if one.is_dense else 1))
    return found


def text_slots(names: Sequence[str]) -> list[Fed]:
    """Slots of words that stand before the others and aren't fed."""
    return [Fed(LineSlot(name, "text", 1, 1, False), (), 0) for name in names]
