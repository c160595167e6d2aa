"""`SparseTable`: rows by ids of any size, made when they are first touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.kernels.rows.draws import RowDraws
from refluid.kernels.rows.ids import IdMap, merge_ids
from refluid.kernels.rows.lookup import look_up
from refluid.pserver.row_updates import Find, RowUpdate

_FIRST_ROWS = 1024
_GROWTH = 1.5


@dataclass(frozen=True)
class TableSpec:
    """What a table is: columns of each variable that has rows, how their rows begin, its update.

    columns and draws have the parameter first, by name, then what its optimizer keeps.
    """

    name: str
    dtype: torch.dtype
    columns: Mapping[str, int]
    draws: Mapping[str, RowDraws]
    update: RowUpdate | None


class SparseTable:
    """The rows that a server has of a table. Not for several threads at once."""

    def __init__(self, spec: TableSpec) -> None:
        if spec.dtype not in (torch.float32, torch.float64):
            raise EnforceNotMet(f"table {spec.name} is of {spec.dtype}: float32 or float64")
        self.spec = spec
        self._map = IdMap()
        self._ids = torch.empty(0, dtype=torch.int64)
        self._kept = {
            name: torch.empty((0, width), dtype=spec.dtype) for name, width in spec.columns.items()
        }

    @property
    def width(self) -> int:
        """Numbers in a row of the parameter."""
        return self.spec.columns[self.spec.name]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._map.count

    @property
    def nbytes(self) -> int:
        """What rows, ids and their map take of memory."""
        kept = sum(one.shape[1] for one in self._kept.values()) * self.spec.dtype.itemsize
        return self._map.count * (kept + self._ids.itemsize) + self._map.nbytes

    def look_up(self, ids: Tensor) -> Tensor:
        """The rows of these ids, int64 [n]: [n, width]; those that aren't there are made."""
        slots = self._slots(ids)
        return look_up(self._kept[self.spec.name], slots)

    def peek(self, ids: Tensor) -> Tensor:
        """The same, but none are made: they are what they would begin as."""
        slots, missing = self._map.find(ids)
        if not missing:
            return look_up(self._kept[self.spec.name], slots)
        out = torch.empty((len(ids), self.width), dtype=self.spec.dtype)
        self.spec.draws[self.spec.name].fill(ids, out)
        there = (slots >= 0).nonzero().view(-1)
        out[there] = look_up(self._kept[self.spec.name], slots[there])
        return out

    def update(self, ids: Tensor, gradient: Tensor, others: Find) -> None:
        """Updates rows by the gradient, [n, width]; equal ids add up. others: as of `RowUpdate`."""
        rule = self.spec.update
        if rule is None:
            raise EnforceNotMet(f"table {self.spec.name} has no optimizer")
        self.check(ids, gradient)
        if not rule.in_place:
            ids, gradient = merge_ids(ids, gradient)
        slots = self._slots(ids)
        rule.run(self._kept, slots, gradient, others)

    def add(self, ids: Tensor, value: Tensor) -> None:
        """Adds to rows of the parameter, [n, width]; equal ids add up."""
        self.check(ids, value)
        ids, value = merge_ids(ids, value)
        slots = self._slots(ids)
        self._kept[self.spec.name].index_add_(0, slots, value)

    def chunks(self, rows: int) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """All ids and what is kept of them, `rows` at a time, as copies."""
        for start in range(0, self.rows, rows):
            yield self.chunk(start, rows)

    def chunk(self, start: int, rows: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Ids and rows from the `start`-th on, at most so many, in the order in which they came."""
        end = min(start + rows, self.rows)
        kept = {name: value[start:end].clone() for name, value in self._kept.items()}
        return self._ids[start:end].clone(), kept

    def put(self, ids: Tensor, values: Mapping[str, Tensor]) -> None:
        """Sets rows; of variables that `values` lacks they begin as new ones do.

        EnforceNotMet where a value has other columns than the table.
        """
        slots = self._slots(ids)
        for name, value in values.items():
            kept = self._kept.get(name)
            if kept is None or value.shape != (len(ids), kept.shape[1]):
                raise EnforceNotMet(
                    f"table {self.spec.name} has no rows {name!r} of shape {tuple(value.shape)}"
                )
            kept.index_copy_(0, slots, value.to(kept.dtype))

    def keep(self, wanted: Tensor) -> int:
        """Forgets all rows but the `wanted` ones, bool [rows]; how many were forgotten."""
        ids, former = self._ids[: self.rows][wanted], self.rows
        kept = {name: value[:former][wanted] for name, value in self._kept.items()}
        self._map, self._ids, self._kept = IdMap(), ids, kept
        self._map.add(ids)
        return former - self.rows

    def clear(self) -> None:
        """Forgets all rows."""
        self.keep(torch.zeros(self.rows, dtype=torch.bool))

    def check(self, ids: Tensor, value: Tensor) -> None:
        """EnforceNotMet where these are no ids and rows of the table."""
        if ids.dtype != torch.int64 or ids.dim() != 1:
            raise EnforceNotMet(f"ids of table {self.spec.name} are int64 [n], not {ids.dtype}")
        if value.shape != (len(ids), self.width) or value.dtype != self.spec.dtype:
            raise EnforceNotMet(
                f"table {self.spec.name} has rows of {self.width} {self.spec.dtype}, and was sent "
                f"{tuple(value.shape)} {value.dtype} for {len(ids)} ids"
            )

    def _slots(self, ids: Tensor) -> Tensor:
        """Where the rows are, made where they are missing."""
        before = self._map.count
        slots = self._map.add(ids)
        count = self._map.count
        if count > before:
            self._make_room(count)
            new = (slots >= before).nonzero().view(-1)
            self._ids[slots[new]] = ids[new]
            fresh = self._ids[before:count]
            for name, kept in self._kept.items():
                self.spec.draws[name].fill(fresh, kept[before:count])
        return slots

    def _make_room(self, count: int) -> None:
        size = len(self._ids)
        if count <= size:
            return
        size = max(_FIRST_ROWS, count, int(_GROWTH * size))
        self._ids = _grown(self._ids, size)
        self._kept = {name: _grown(value, size) for name, value in self._kept.items()}


def _grown(value: Tensor, size: int) -> Tensor:
    made = value.new_empty((size, *value.shape[1:]))
    made[: len(value)] = value
    return made
