"""Links of trainers to servers, one for each way to wait: who waits for whom, and how long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.comm.communicator import Exchanged
from refluid.core.errors import EnforceNotMet
from refluid.kernels.rows.dealing import KnownRows
from refluid.pserver.table_client import TableClient


class TableLink:
    """What all links have in common: rows are asked for when they are needed.

    saves: writes a table of the servers, or all for "", to a folder; who connects knows how.
    """

    def __init__(self, client: TableClient) -> None:
        self.client = client
        self.saves: Callable[[str, str], None] = _cannot_save

    def announce(self, ids: Mapping[str, Sequence[Tensor]]) -> None:
        """Nothing is done ahead."""

    def look_up(self, table: str, ids: Sequence[Tensor]) -> Sequence[Tensor]:
        if len(ids) == 1:
            return [self._rows(table, ids[0])]
        sizes = [one.numel() for one in ids]
        rows = self._rows(table, together(ids))
        shapes = [(*one.shape, rows.shape[1]) for one in ids]
        parts = torch.split_with_sizes(rows, sizes)
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def _rows(self, table: str, ids: Tensor) -> Tensor:
        return self.client.rows(table, ids)

    def save(self, folder: str, table: str) -> None:
        self.saves(folder, table)

    def flush(self) -> None:
        """Returns once the servers have all that was sent."""

    def close(self) -> None:
        """Sends what is left, and tells the servers that this trainer ends."""
        try:
            self.flush()
        finally:
            self.end()
            self.client.leave()

    def end(self) -> None:
        """Ends what else calls the servers for this link: nothing may follow the trainer's end."""


def _cannot_save(_folder: str, _table: str) -> None:
    raise EnforceNotMet("who only reads tables saves none: a trainer does")


class WaitingLink(TableLink):
    """Each step pushes, waits until the push is applied, and gets the parameters as they are then.

    Whether other trainers are waited for, the servers decide: in synchronous training they are.
    Rows for the next step come with the answer, as they are once the push is applied, where its
    ids were announced: nobody changes them before this trainer's next push, or as little as if
    they were asked for now.
    """

    def __init__(self, client: TableClient) -> None:
        super().__init__(client)
        self._step = _SentStep()

    def send(self, gradients: Mapping[str, Exchanged]) -> None:
        self._step.gradients.update(gradients)

    def send_barrier(self) -> None:
        step = self._step
        given, step.gradients = step.gradients, {}
        wanted, step.announced = step.announced, {}
        step.fresh, step.known = self.client.push_and_pull(given, wanted)

    def announce(self, ids: Mapping[str, Sequence[Tensor]]) -> None:
        self._step.announced = {table: together(one) for table, one in ids.items()}

    def _rows(self, table: str, ids: Tensor) -> Tensor:
        known = self._step.known.pop(table, None)
        if known is not None and known.is_of(ids):
            return known.of(ids)
        return super()._rows(table, ids)

    def receive(self, parameters: Mapping[str, Tensor], *, wait: bool) -> None:  # noqa: ARG002
        fresh = self._step.fresh
        overwrite(parameters, self.client.pull() if fresh is None else fresh)

    def fetch_barrier(self) -> None:
        self._step.fresh = None


class SilentLink(TableLink):
    """Nothing leaves in a step and rows are zeros, so that the rest of it can be timed."""

    def __init__(self, client: TableClient) -> None:
        super().__init__(client)
        self._kept = {one.name: (one.width, one.dtype) for one in client.layout.sparse}

    def send(self, gradients: Mapping[str, Exchanged]) -> None:
        """Goes nowhere."""

    def send_barrier(self) -> None:
        """Nothing was sent."""

    def receive(self, parameters: Mapping[str, Tensor], *, wait: bool) -> None:
        """As servers have them at the beginning; later they stay."""
        if wait:
            overwrite(parameters, self.client.pull())

    def fetch_barrier(self) -> None:
        """Nothing was asked for."""

    def _rows(self, table: str, ids: Tensor) -> Tensor:
        width, dtype = self._kept[table]
        return torch.zeros((*ids.shape, width), dtype=getattr(torch, dtype))


class _SentStep(threading.local):
    """What one thread that trains has sent, and what it was answered."""

    def __init__(self) -> None:
        self.gradients: dict[str, Any] = {}
        self.fresh: dict[str, Tensor] | None = None
        # Ids of the next step, and its rows, by table.
        self.announced: dict[str, Tensor] = {}
        self.known: dict[str, KnownRows] = {}


def together(ids: Sequence[Tensor]) -> Tensor:
    """All ids of several lookups, int64 [n]."""
    return torch.cat([one.reshape(-1) for one in ids])


def overwrite(parameters: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Copies values into parameters of the same names; those that have none stay."""
    for name, own in parameters.items():
        if name in values:
            own.copy_(values[name])
