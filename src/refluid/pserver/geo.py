"""GEO: trainers update by an optimizer of their own, and exchange every few steps what changed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from refluid.comm.communicator import Exchanged
from refluid.core.selected_rows import SelectedRows
from refluid.kernels.rows.ids import unique_ids
from refluid.pserver.layout import SparseParameter
from refluid.pserver.links import TableLink
from refluid.pserver.table_client import TableClient

# After a table's name: the ids that a step looked up in it.
IDS = "@IDS"
_FILLED = 2**20


class DeltaLink(TableLink):
    """Every `frequency` steps: push (own - as it was) / trainers, take what the servers have.

    Of tables the rows that were looked up since are exchanged.
    """

    def __init__(self, client: TableClient, frequency: int) -> None:
        super().__init__(client)
        self._frequency, self._lock = frequency, threading.RLock()
        self._tables = {one.name: one for one in client.layout.sparse}
        self._own: dict[str, Tensor] = {}
        self._before: dict[str, Tensor] = {}
        self._touched: dict[str, list[Tensor]] = {name: [] for name in self._tables}
        self._fresh: list[tuple[str, Tensor | None, Tensor]] = []
        self.steps = 0
        self.exchanges = 0
        client.figures.lag = lambda: (0, self.steps % self._frequency)

    def send(self, gradients: Mapping[str, Exchanged]) -> None:
        """A step is done. gradients: parameters and tables as they are, ids by their names."""
        with self._lock:
            for name, value in gradients.items():
                base, mark, _ = name.rpartition(IDS)
                if mark:
                    self._touched[base].append(_flat(value))
                elif isinstance(value, Tensor):
                    self._own[name] = value
            self.steps += 1
            if self.steps % self._frequency == 0:
                self._exchange()

    def send_barrier(self) -> None:
        """The exchange is done when `send` returns."""

    def receive(self, parameters: Mapping[str, Tensor], *, wait: bool) -> None:
        """Waiting, as at the beginning: all begin alike; else what was exchanged, if anything."""
        with self._lock:
            if not wait:
                self._take()
                return
            dense = self.client.pull()
            for name, own in parameters.items():
                if name in self._tables:
                    self._fill(self._tables[name], own)
                else:
                    own.copy_(dense[name])
                self._own[name], self._before[name] = own, own.clone()

    def fetch_barrier(self) -> None:
        """Nothing is under way."""

    def flush(self) -> None:
        with self._lock:
            if self.steps % self._frequency:
                self._exchange()
                self._take()

    def _exchange(self) -> None:
        share = 1.0 / self.client.layout.trainers
        changes: dict[str, Any] = {}
        ids: dict[str, Tensor] = {}
        for name, own in self._own.items():
            before = self._before[name]
            if name not in self._tables:
                changes[name] = (own - before) * share
            elif self._touched[name]:
                ids[name], _ = unique_ids(torch.cat(self._touched[name]))
                self._touched[name].clear()
                moved = own.index_select(0, ids[name]) - before.index_select(0, ids[name])
                changes[name] = SelectedRows(ids[name], len(own), moved * share)
        fresh = self.client.push(changes, delta=True, wants=True)
        self._fresh = [(name, None, value) for name, value in fresh.items()]
        self._fresh += [(name, some, self.client.rows(name, some)) for name, some in ids.items()]
        self.exchanges += 1

    def _take(self) -> None:
        """Writes what was exchanged into the parameters: whole ones, or some rows."""
        for name, rows, value in self._fresh:
            for own in (self._own[name], self._before[name]):
                if rows is None:
                    own.copy_(value)
                else:
                    own.index_copy_(0, rows, value)
        self._fresh = []

    def _fill(self, table: SparseParameter, own: Tensor) -> None:
        """The table as it begins, with what the servers have of it already."""
        for start in range(0, len(own), _FILLED):
            part = own[start : start + _FILLED]
            table.draws.fill(torch.arange(start, start + len(part)), part)
        for ids, kept in self.client.export(table.name):
            own.index_copy_(0, ids, kept[table.name])


def _flat(value: Exchanged) -> Tensor:
    ids = value.index if isinstance(value, SelectedRows) else value
    return ids.reshape(-1).clone()
