"""`DiskTable`: a table whose rows are on disk, those that were used last in memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from refluid.kernels.rows.ids import unique_ids
from refluid.pserver.disk_rows import RowStore, StoredRows
from refluid.pserver.row_snapshots import grown
from refluid.pserver.sparse_table import SparseTable
from refluid.pserver.table_spec import LAST, Admission, Eviction, TableSpec

# What is known of a row in memory: used since rows were last written; to be written; on disk.
_USED, _CHANGED, _STORED = 1, 2, 4
# What stays in memory when rows are written to make room, and how many are written at a time.
_LEFT = 0.5
_WRITTEN = 2**17
# Of a slot besides its row: id and state, and the map of ids, which is at most half full.
_SLOT = 8 + 1 + 4 * 12


class DiskTable(SparseTable):
    """The same numbers as a `SparseTable`'s, with at most `memory` bytes of rows in memory.

    A batch that needs more has more. Updates alone make rows.
    """

    def __init__(
        self,
        spec: TableSpec,
        store: RowStore,
        memory: int,
        admission: Admission | None = None,
        eviction: Eviction | None = None,
    ) -> None:
        super().__init__(spec, admission, eviction)
        self._made_by_lookups = False
        self._stored: StoredRows = store.table(spec.name, self._columns)
        # Rows are copied once when others make room for them.
        self.room = max(1, memory // (2 * self._stored.size + _SLOT))
        self._most_slots = self.room
        self._state = torch.empty(0, dtype=torch.uint8)
        self._unwritten = 0

    @property
    def rows(self) -> int:
        return self._stored.count + self._unwritten

    @property
    def rows_in_memory(self) -> int:
        """How many of them are in memory."""
        return self._map.count

    def flush(self, most: int | None = None) -> bool:
        """Writes to disk what was changed, at most so many rows; whether there is more."""
        chosen = self._states & _CHANGED > 0
        if most is not None:
            chosen &= chosen.cumsum(0) <= most
        self._write(chosen)
        return most is not None and int(chosen.sum()) == most

    def chunks(self, rows: int) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        self.flush()
        yield from self._stored.chunks(rows)

    def chunk(self, start: int, rows: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Ids and rows from the `start`-th on, at most so many, by ascending id."""
        self.flush()
        none = torch.empty(0, dtype=torch.int64)
        empty = {
            name: torch.empty((0, one[0]), dtype=one[1]) for name, one in self._columns.items()
        }
        return next(self._stored.chunks(rows, start), (none, empty))

    def clear(self) -> None:
        super().clear()
        self._stored.clear()
        self._unwritten = 0

    def forget(self, ids: Tensor) -> None:
        self.flush()
        super().forget(ids)
        self._stored.remove(ids)

    def _forget_until(self, clock: int) -> int:
        gone = [ids[kept[LAST][:, 0] <= clock] for ids, kept in self.chunks(_WRITTEN)]
        found = torch.cat(gone) if gone else torch.empty(0, dtype=torch.int64)
        self.forget(found)
        return len(found)

    def _last_updates(self) -> Tensor:
        return torch.cat([kept[LAST][:, 0] for _, kept in self.chunks(_WRITTEN)])

    # -- slots ----------------------------------------------------------------

    def _known(self, ids: Tensor) -> tuple[Tensor, int]:
        """Where the rows are; those that are only on disk come to memory."""
        slots, missing = self._map.find(ids)
        if missing:
            here = slots >= 0
            found, kept = self._stored.fetch(unique_ids(ids[~here])[0])
            if len(found):
                self._leave_room(len(found), slots[here])
                own = super()._slots(found)
                for name, value in kept.items():
                    self._kept[name].index_copy_(0, own, value)
                self._state[own] = _STORED
                slots, missing = self._map.find(ids)
        self._mark(slots[slots >= 0] if missing else slots, _USED)
        return slots, missing

    def _slots(self, ids: Tensor) -> Tensor:
        slots, missing = self._known(ids)
        if missing:
            here = slots >= 0
            new, _ = unique_ids(ids[~here])
            self._leave_room(len(new), slots[here])
            made = super()._slots(new)
            self._state[made] = 0
            self._unwritten += len(new)
            slots, _ = self._map.find(ids)
        self._mark(slots, _USED | _CHANGED)
        return slots

    def _mark(self, slots: Tensor, state: int) -> None:
        self._state[slots] |= state

    @property
    def _states(self) -> Tensor:
        return self._state[: self._map.count]

    def _leave_room(self, count: int, needed: Tensor) -> None:
        """Takes rows out of memory where so many more have no room; not the `needed` slots."""
        if self._map.count + count <= self.room:
            return
        wanted = self._states & _USED > 0
        wanted[needed] = True
        most = max(len(needed), int(self.room * _LEFT) - count)
        if int(wanted.sum()) > most:
            # All were used: those that came last stay.
            wanted[: len(wanted) - most] = False
            wanted[needed] = True
        self._write((self._states & _CHANGED > 0) & ~wanted)
        self._retain(wanted)
        self._state &= ~_USED

    def _write(self, chosen: Tensor) -> None:
        places = chosen.nonzero().view(-1)
        for part in torch.split_with_sizes(places, _sizes(len(places))):
            kept = {name: value[part] for name, value in self._kept.items()}
            self._stored.put(self._ids[part], kept)
        self._unwritten -= int((self._state[places] & _STORED == 0).sum())
        self._state[places] = self._state[places] & ~_CHANGED | _STORED

    def _retain(self, wanted: Tensor) -> None:
        self._state = self._states[wanted]
        super()._retain(wanted)

    def _make_room(self, count: int) -> None:
        super()._make_room(count)
        if len(self._state) < len(self._ids):
            self._state = grown(self._state, len(self._ids))


def _sizes(count: int) -> list[int]:
    """So many rows in parts that are written at a time."""
    return [min(_WRITTEN, count - start) for start in range(0, count, _WRITTEN)]
