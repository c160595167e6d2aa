"""GEO: trainers update by an optimizer of their own, and exchange every few steps what changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from refluid.comm.communicator import Exchanged
from refluid.comm.servers import LOOKED_UP
from refluid.core.selected_rows import SelectedRows
from refluid.core.whole_threads import ended, interrupts_later, is_over
from refluid.kernels.rows.dealing import KnownRows
from refluid.kernels.rows.ids import unique_ids
from refluid.pserver.layout import SparseParameter
from refluid.pserver.links import TableLink
from refluid.pserver.table_client import TableClient

_FILLED = 2**20


@dataclass(frozen=True)
class _UnderWay:
    """An exchange: by name the rows that were sent (None: all), as they were then; the answer."""

    sent: Mapping[str, tuple[Tensor | None, Tensor]]
    answer: Future[tuple[dict[str, Tensor], dict[str, KnownRows]]]


class DeltaLink(TableLink):
    """Every `frequency` steps: push (own - as it was) / trainers, take what the servers have.

    Of tables the rows that were looked up since are exchanged. A thread does it while training
    goes on, unless `waits` or each step exchanges: what a trainer adds meanwhile stays its own,
    and is part of the next push. One exchange at a time is under way.
    """

    def __init__(self, client: TableClient, frequency: int, *, waits: bool = False) -> None:
        super().__init__(client)
        self._frequency, self._lock = frequency, threading.RLock()
        self._waits = waits or frequency == 1
        self._tables = {one.name: one for one in client.layout.sparse}
        self._own: dict[str, Tensor] = {}
        self._before: dict[str, Tensor] = {}
        self._touched: dict[str, list[Tensor]] = {name: [] for name in self._tables}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="refluid geo")
        self._under_way: _UnderWay | None = None
        self._is_due = False
        self.steps = 0
        self.exchanges = 0
        client.figures.lag = lambda: (0, self.steps % self._frequency)

    def send(self, gradients: Mapping[str, Exchanged]) -> None:
        """A step is done. gradients: parameters and tables as they are, ids by their names."""
        with self._lock:
            for name, value in gradients.items():
                base, mark, _ = name.rpartition(LOOKED_UP)
                if mark:
                    self._touched[base].append(_flat(value))
                elif isinstance(value, Tensor):
                    self._own[name] = value
            self.steps += 1
            self._is_due = self._is_due or self.steps % self._frequency == 0

    def send_barrier(self) -> None:
        """A step waits for nothing."""

    def receive(self, parameters: Mapping[str, Tensor], *, wait: bool) -> None:
        """Waiting, as at the beginning: all begin alike; else what was exchanged, if anything."""
        with self._lock:
            if not wait:
                if self._is_due:
                    self._exchange()
                self._finish(wait=self._waits)
                return
            dense = self.client.pull()
            for name, own in parameters.items():
                if name in self._tables:
                    self._fill(self._tables[name], own)
                else:
                    own.copy_(dense[name])
                self._own[name], self._before[name] = own, own.clone()

    def fetch_barrier(self) -> None:
        """A step waits for nothing."""

    def flush(self) -> None:
        with self._lock:
            if self._is_due or self.steps % self._frequency:
                self._exchange(submit=_at_once)
            self._finish(wait=True)

    def end(self) -> None:
        self._pool.shutdown()

    def _exchange(self, submit: Callable[..., Future[Any]] | None = None) -> None:
        """Begins one, once the one before is at its end; `submit` calls, else the thread."""
        self._finish(wait=True)
        share = 1.0 / self.client.layout.trainers
        changes: dict[str, Any] = {}
        sent: dict[str, tuple[Tensor | None, Tensor]] = {}
        ids: dict[str, Tensor] = {}
        for name, own in self._own.items():
            before = self._before[name]
            if name not in self._tables:
                sent[name] = None, own.clone()
                changes[name] = (own - before) * share
            elif self._touched[name]:
                ids[name], _ = unique_ids(torch.cat(self._touched[name]))
                now = own.index_select(0, ids[name])
                sent[name] = ids[name], now
                moved = (now - before.index_select(0, ids[name])) * share
                changes[name] = SelectedRows(ids[name], len(own), moved)
        push = partial(self.client.push_and_pull, changes, ids, delta=True)
        answer = submit(push) if submit else None
        with interrupts_later():  # it is under way and noted, or neither
            self._under_way = _UnderWay(sent, answer or self._pool.submit(push))
            for name in ids:
                self._touched[name].clear()
            self._is_due = False
            self.exchanges += 1

    def _finish(self, *, wait: bool) -> None:
        """Takes what servers answered, where they did: theirs, and what was added meanwhile."""
        exchange = self._under_way
        if exchange is None or not (wait or is_over(exchange.answer)):
            return
        ended(exchange.answer)
        with interrupts_later():  # all of it is taken, or it is still to be taken
            self._under_way = None
            self._apply(exchange.sent, *exchange.answer.result())

    def _apply(
        self,
        sent: Mapping[str, tuple[Tensor | None, Tensor]],
        dense: Mapping[str, Tensor],
        rows: Mapping[str, KnownRows],
    ) -> None:
        for name, (ids, was) in sent.items():
            own, before = self._own[name], self._before[name]
            if ids is None:
                own.copy_(dense[name] + (own - was))
                before.copy_(dense[name])
            else:
                fresh = rows[name].of(ids)
                own.index_copy_(0, ids, fresh + (own.index_select(0, ids) - was))
                before.index_copy_(0, ids, fresh)

    def _fill(self, table: SparseParameter, own: Tensor) -> None:
        """The table as it begins, with what the servers have of it already."""
        for start in range(0, len(own), _FILLED):
            part = own[start : start + _FILLED]
            table.draws.fill(torch.arange(start, start + len(part)), part)
        for ids, kept in self.client.export(table.name):
            own.index_copy_(0, ids, kept[table.name])


def _at_once(function: Callable[..., Any], *args: Any, **settings: Any) -> Future[Any]:
    """Calls it in this thread: when Python ends, others can't be asked any more."""
    answer: Future[Any] = Future()
    answer.set_result(function(*args, **settings))
    return answer


def _flat(value: Exchanged) -> Tensor:
    ids = value.index if isinstance(value, SelectedRows) else value
    return ids.reshape(-1).clone()
