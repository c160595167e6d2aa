"""`Columns`: rows of slots, stored slot by slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid.feed.multislot.kernel import FLOAT, INT
from refluid.kernels.compiled import compiled

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Columns:
    """The values of some rows: per slot one array, and where each row begins in it.

    `offsets[s]` has `rows + 1` entries; where a slot has as many values in each row, it is None.
    """

    rows: int
    values: tuple[Array, ...]
    offsets: tuple[npt.NDArray[np.int64] | None, ...]

    @property
    def nbytes(self) -> int:
        """The memory of all arrays."""
        held = [one.nbytes for one in self.values]
        return sum(held) + sum(one.nbytes for one in self.offsets if one is not None)

    def part(self, start: int, stop: int) -> Columns:
        """Rows start to stop - 1; the values are not copied."""
        values: list[Array] = []
        offsets: list[npt.NDArray[np.int64] | None] = []
        for held, where in zip(self.values, self.offsets, strict=True):
            if where is None:
                width = len(held) // self.rows
                values.append(held[start * width : stop * width])
                offsets.append(None)
            else:
                values.append(held[where[start] : where[stop]])
                offsets.append(where[start : stop + 1] - where[start])
        return Columns(stop - start, tuple(values), tuple(offsets))

    def take(self, orders: Sequence[npt.NDArray[np.int64]]) -> Columns:
        """Rows in another order: slot `s` of the new row `i` is that of row `orders[s][i]`."""
        values: list[Array] = []
        offsets: list[npt.NDArray[np.int64] | None] = []
        for held, where, order in zip(self.values, self.offsets, orders, strict=True):
            if where is None:
                values.append(held.reshape(self.rows, -1)[order].reshape(-1))
                offsets.append(None)
            else:
                ends = np.zeros(len(order) + 1, np.int64)
                np.cumsum(where[order + 1] - where[order], out=ends[1:])
                found = np.empty(ends[-1], held.dtype)
                _gather(held, where, order, ends, found)
                values.append(found)
                offsets.append(ends)
        return Columns(len(orders[0]), tuple(values), tuple(offsets))


def joined(parts: Sequence[Columns]) -> Columns:
    """The rows of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return join_freeing([columns_parts(one) for one in parts])


def columns_parts(columns: Columns) -> list[Any]:
    """The values, offsets and row count that `join_freeing` takes."""
    return [list(columns.values), list(columns.offsets), columns.rows]


def join_freeing(parts: list[list[Any]]) -> Columns:
    """As `joined`, of `columns_parts`; each slot's arrays are let go once they are joined.

    So twice the memory of one slot is needed at most, not of all.
    """
    values, offsets = [], []
    for slot in range(len(parts[0][0])):
        values.append(np.concatenate([part[0][slot] for part in parts]))
        offsets.append(_join_offsets([part[1][slot] for part in parts]))
        for part in parts:
            part[0][slot] = part[1][slot] = None
    return Columns(sum(part[2] for part in parts), tuple(values), tuple(offsets))


def _join_offsets(offsets: Sequence[Array | None]) -> Array | None:
    found = [one for one in offsets if one is not None]
    if not found:
        return None
    lengths = np.concatenate([np.diff(one) for one in found])
    where = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=where[1:])
    return where


def by_slot(
    slots: Array, used: Sequence[int], ints: Array, floats: Array, counts: Array
) -> Columns:
    """Columns of the `used` slots, from values that lie row after row.

    slots: kind, width, unit per slot. counts: values per row and slot.
    """
    rows = len(counts)
    offsets = np.zeros((len(slots), rows + 1), np.int64)
    np.cumsum(counts.T, axis=1, out=offsets[:, 1:])
    kept = np.zeros(len(slots), np.bool_)
    kept[list(used)] = True
    starts = np.zeros(len(slots), np.int64)
    sizes = {INT: 0, FLOAT: 0}
    for slot in used:
        kind = int(slots[slot, 0])
        starts[slot] = sizes[kind]
        sizes[kind] += int(offsets[slot, -1])
    held: dict[int, Array] = {
        INT: np.empty(sizes[INT], np.int64),
        FLOAT: np.empty(sizes[FLOAT], np.float32),
    }
    _scatter(slots, kept, starts.copy(), ints, floats, counts, held[INT], held[FLOAT])
    values = [
        held[int(slots[slot, 0])][starts[slot] : starts[slot] + offsets[slot, -1]] for slot in used
    ]
    where = [None if slots[slot, 1] else offsets[slot].copy() for slot in used]
    return Columns(rows, tuple(values), tuple(where))


@compiled
def _scatter(
    slots: Any, kept: Any, starts: Any, ints: Any, floats: Any, counts: Any, to_ints: Any, to: Any
) -> None:
    """Moves values from row order to slot order; `starts` is where each slot begins."""
    int_at, float_at = 0, 0
    for row in range(counts.shape[0]):
        for slot in range(len(slots)):
            count, at = counts[row, slot], starts[slot]
            if slots[slot, 0] == INT:
                if kept[slot] and count == 1:
                    to_ints[at] = ints[int_at]
                elif kept[slot]:
                    for place in range(count):
                        to_ints[at + place] = ints[int_at + place]
                int_at += count
            elif slots[slot, 0] == FLOAT:
                if kept[slot]:
                    for place in range(count):
                        to[at + place] = floats[float_at + place]
                float_at += count
            starts[slot] = at + count


@compiled
def _gather(held: Any, where: Any, order: Any, ends: Any, found: Any) -> None:
    """Copies the values of the rows `order`, whose places in `found` are `ends`."""
    for row in range(len(order)):
        source, target = where[order[row]], ends[row]
        for place in range(ends[row + 1] - target):
            found[target + place] = held[source + place]
