"""`SparseTable`: rows by ids of any size, made when they are first touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.kernels.rows.draws import CONSTANT, RowDraws
from refluid.kernels.rows.ids import IdMap, merge_ids
from refluid.kernels.rows.lookup import look_up, take_rows
from refluid.pserver.row_snapshots import RowSnapshot, grown
from refluid.pserver.row_updates import Find
from refluid.pserver.table_clocks import on_clock
from refluid.pserver.table_spec import LAST, Admission, Eviction, TableSpec

_FIRST_ROWS = 1024
_GROWTH = 1.5
# So much of the limit stays free once rows were forgotten for it: those of an update together.
_SPARE = 0.1


class SparseTable:
    """The rows that a server has of a table. Not for several threads at once.

    With an admission or eviction updates alone make rows, so that the same updates always make the
    same table; else lookups make them too.
    """

    def __init__(
        self,
        spec: TableSpec,
        admission: Admission | None = None,
        eviction: Eviction | None = None,
    ) -> None:
        if spec.dtype not in (torch.float32, torch.float64):
            raise EnforceNotMet(f"table {spec.name} is of {spec.dtype}: float32 or float64")
        self.spec, self.admission, self.eviction = spec, admission, eviction
        self.clock, self._ends = 0, [0]
        self._columns = {name: (width, spec.dtype) for name, width in spec.columns.items()}
        self._draws = dict(spec.draws)
        if eviction is not None:
            self._columns[LAST], self._draws[LAST] = (1, torch.int64), RowDraws(CONSTANT, 0)
        self._most_slots = 2**62  # unless a batch needs more
        self._made_by_lookups = admission is None and eviction is None
        self._map = IdMap()
        self._snapshot: RowSnapshot | None = None
        self._ids = torch.empty(0, dtype=torch.int64)
        self._kept = {
            name: torch.empty((0, width), dtype=kind)
            for name, (width, kind) in self._columns.items()
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
        kept = sum(width * kind.itemsize for width, kind in self._columns.values())
        return self._map.count * (kept + self._ids.itemsize) + self._map.nbytes

    def parts(self) -> list[SparseTable]:
        """The table, and what its admission counts: what a checkpoint has."""
        counts = None if self.admission is None else self.admission.counts
        return [self] if counts is None else [self, *counts.parts()]

    # -- reading --------------------------------------------------------------

    def look_up(self, ids: Tensor, out: Tensor | None = None) -> Tensor:
        """The rows of these ids, int64 [n]: `out` or a new [n, width]; missing ones may be made."""
        if not self._made_by_lookups:
            return self.peek(ids, out)
        slots = self._slots(ids)
        return take_rows(self._kept[self.spec.name], slots, out)

    def peek(self, ids: Tensor, out: Tensor | None = None) -> Tensor:
        """The same, but none are made: they are what they would begin as."""
        slots, missing = self._known(ids)
        if not missing:
            return take_rows(self._kept[self.spec.name], slots, out)
        out = torch.empty((len(ids), self.width), dtype=self.spec.dtype) if out is None else out
        there = (slots >= 0).nonzero().view(-1)
        absent = (slots < 0).nonzero().view(-1)
        drawn = out.new_empty((len(absent), self.width))
        self.spec.draws[self.spec.name].fill(ids[absent], drawn)
        out[absent] = drawn
        out[there] = look_up(self._kept[self.spec.name], slots[there])
        return out

    def chunks(self, rows: int) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """All ids and what is kept of them, `rows` at a time, as copies."""
        for start in range(0, self.rows, rows):
            yield self.chunk(start, rows)

    def chunk(self, start: int, rows: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Ids and rows from the `start`-th on, at most so many, in the order in which they came."""
        end = min(start + rows, self.rows)
        kept = {name: value[start:end].clone() for name, value in self._kept.items()}
        return self._ids[start:end].clone(), kept

    # -- as it is at a moment -------------------------------------------------

    def snapshot(self) -> RowSnapshot:
        """All rows as they are now, to be read while the table changes, until `end_snapshot`."""
        self._snapshot = RowSnapshot(self._ids, self._kept, self.rows)
        return self._snapshot

    def end_snapshot(self) -> None:
        """The snapshot was read, or isn't needed."""
        self._snapshot = None

    def flush(self, most: int | None = None) -> bool:  # noqa: ARG002
        """Writes what belongs on disk, at most so many rows; whether there is more."""
        return False

    # -- changing -------------------------------------------------------------

    def update(self, ids: Tensor, gradient: Tensor, others: Find) -> None:
        """Updates rows by the gradient, [n, width]; equal ids add up. others: as of `RowUpdate`."""
        rule = self.spec.update
        if rule is None:
            raise EnforceNotMet(f"table {self.spec.name} has no optimizer")
        self.check(ids, gradient)
        if not rule.in_place or self.admission is not None:
            ids, gradient = merge_ids(ids, gradient)
        ids, gradient = self._admitted(ids, gradient)
        slots = self._to_change(ids)
        rule.run(self._kept, slots, gradient, others)
        self._updated(slots)

    def add(self, ids: Tensor, value: Tensor) -> None:
        """Adds to rows of the parameter, [n, width]; equal ids add up."""
        self.check(ids, value)
        ids, value = self._admitted(*merge_ids(ids, value))
        slots = self._to_change(ids)
        self._kept[self.spec.name].index_add_(0, slots, value)
        self._updated(slots)

    def put(self, ids: Tensor, values: Mapping[str, Tensor]) -> None:
        """Sets rows; of variables that `values` lacks they begin as new ones do.

        EnforceNotMet where a value has other columns than the table.
        """
        for name, value in values.items():
            kept = self._kept.get(name)
            if kept is None or value.shape != (len(ids), kept.shape[1]):
                raise EnforceNotMet(
                    f"table {self.spec.name} has no rows {name!r} of shape {tuple(value.shape)}"
                )
        slots = self._to_change(ids)
        for name, value in values.items():
            kept = self._kept[name]
            kept.index_copy_(0, slots, value.to(kept.dtype))

    def take_rows(
        self, ids: Tensor, values: Mapping[str, Tensor], marks: Mapping[str, Any]
    ) -> None:
        """Rows of another server's table; when they were updated is told by its `marks`."""
        if LAST in values:
            if not self.clock:
                self.set_marks(marks)
            values = {**values, LAST: on_clock(values[LAST], marks, self.marks())}
        self.put(ids, values)

    def clear(self) -> None:
        """Forgets all rows."""
        self._retain(torch.zeros(self._map.count, dtype=torch.bool))

    def forget(self, ids: Tensor) -> None:
        """Forgets the rows of these ids, as far as there are."""
        slots, _ = self._map.find(ids)
        wanted = torch.ones(self._map.count, dtype=torch.bool)
        wanted[slots[slots >= 0]] = False
        self._retain(wanted)

    def check(self, ids: Tensor, value: Tensor) -> None:
        """EnforceNotMet where these are no ids and rows of the table."""
        if ids.dtype != torch.int64 or ids.dim() != 1:
            raise EnforceNotMet(f"ids of table {self.spec.name} are int64 [n], not {ids.dtype}")
        if value.shape != (ids.shape[0], self.width) or value.dtype != self.spec.dtype:
            raise EnforceNotMet(
                f"table {self.spec.name} has rows of {self.width} {self.spec.dtype}, and was sent "
                f"{tuple(value.shape)} {value.dtype} for {len(ids)} ids"
            )

    # -- forgetting -----------------------------------------------------------

    def end_pass(self, passes: int | None = None) -> int:
        """Ends a pass: forgets rows that weren't updated in so many; how many were forgotten.

        passes: as `eviction` says unless given. EnforceNotMet where the table has no eviction, so
        that it isn't known when rows were updated.
        """
        if self.admission is not None:
            self.admission.end_pass()
        if self.eviction is None:
            raise EnforceNotMet(
                f"table {self.spec.name} doesn't know when its rows were updated: set "
                "REFLUID_TABLE_PASSES or REFLUID_TABLE_ROWS for the servers"
            )
        self._ends.append(self.clock)
        count = self.eviction.passes if passes is None else passes
        found = 0
        if 0 < count < len(self._ends):
            found = self._forget_until(self._ends[-1 - count])
        del self._ends[: -1 - max(count, self.eviction.passes)]
        return found

    def marks(self) -> dict[str, Any]:
        """What the table knows of time, to be kept in checkpoints."""
        return {"clock": self.clock, "ends": self._ends}

    def set_marks(self, marks: Mapping[str, Any]) -> None:
        """What `marks` gave."""
        self.clock, self._ends = int(marks["clock"]), [int(one) for one in marks["ends"]]

    def _forget_until(self, clock: int) -> int:
        """Forgets rows whose last update was then or before; how many."""
        former = self.rows
        self._retain(self._kept[LAST][: self._map.count, 0] > clock)
        return former - self.rows

    def _updated(self, slots: Tensor) -> None:
        if self.eviction is None:
            return
        self.clock += 1
        self._kept[LAST][slots] = self.clock
        most = self.eviction.rows
        if most and self.rows > most:
            oldest = self._last_updates().kthvalue(self.rows - int(most * (1 - _SPARE))).values
            self._forget_until(min(int(oldest), self.clock - 1))

    def _last_updates(self) -> Tensor:
        """When each row was last updated, int64 [rows]."""
        return self._kept[LAST][: self._map.count, 0]

    def _admitted(self, ids: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Those ids, each there once, that have a row or get one, and their values."""
        if self.admission is None:
            return ids, value
        slots, missing = self._known(ids)
        if not missing:
            return ids, value
        new = (slots < 0).nonzero().view(-1)
        chosen = slots >= 0
        chosen[new] = self.admission.admit(ids[new])
        return ids[chosen], value[chosen]

    # -- slots ----------------------------------------------------------------

    def _known(self, ids: Tensor) -> tuple[Tensor, int]:
        """Where the rows are, -1 for those that aren't there; how many these are."""
        return self._map.find(ids)

    def _to_change(self, ids: Tensor) -> Tensor:
        """Where the rows are that are about to be changed."""
        slots = self._slots(ids)
        if self._snapshot is not None:
            self._snapshot.save(self._kept, slots)
        return slots

    def _slots(self, ids: Tensor) -> Tensor:
        """Where the rows are, to be changed; made where they are missing."""
        before = self._map.count
        slots = self._map.add(ids)
        count = self._map.count
        if count > before:
            self._make_room(count)
            new = (slots >= before).nonzero().view(-1)
            self._ids[slots[new]] = ids[new]
            fresh = self._ids[before:count]
            for name, kept in self._kept.items():
                self._draws[name].fill(fresh, kept[before:count])
        return slots

    def _retain(self, wanted: Tensor) -> None:
        """Drops all slots but the `wanted` ones, bool [slots]; those close ranks."""
        former = self._map.count
        kept = {name: value[:former][wanted] for name, value in self._kept.items()}
        self._ids, self._kept, self._map = self._ids[:former][wanted], kept, IdMap()
        self._map.add(self._ids)

    def _make_room(self, count: int) -> None:
        size = len(self._ids)
        if count <= size:
            return
        size = max(count, min(max(_FIRST_ROWS, int(_GROWTH * size)), self._most_slots))
        self._ids = grown(self._ids, size)
        self._kept = {name: grown(value, size) for name, value in self._kept.items()}
