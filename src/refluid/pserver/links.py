"""Links of trainers to servers, one for each way to wait: who waits for whom, and how long."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.comm.communicator import Exchanged
from refluid.pserver.table_client import TableClient


class TableLink:
    """What all links have in common: rows are asked for when they are needed."""

    def __init__(self, client: TableClient) -> None:
        self.client = client

    def look_up(self, table: str, ids: Sequence[Tensor]) -> Sequence[Tensor]:
        if len(ids) == 1:
            return [self.client.rows(table, ids[0])]
        sizes = [one.numel() for one in ids]
        rows = self.client.rows(table, torch.cat([one.reshape(-1) for one in ids]))
        shapes = [(*one.shape, rows.shape[1]) for one in ids]
        parts = torch.split_with_sizes(rows, sizes)
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def save(self, folder: str, table: str) -> None:
        self.flush()
        self.client.save({"folder": folder, "table": table})

    def flush(self) -> None:
        """Returns once the servers have all that was sent."""

    def close(self) -> None:
        """Sends what is left, and tells the servers that this trainer ends."""
        try:
            self.flush()
        finally:
            self.client.leave()


class WaitingLink(TableLink):
    """Each step pushes, waits until the push is applied, and gets the parameters as they are then.

    Whether other trainers are waited for, the servers decide: in synchronous training they are.
    """

    def __init__(self, client: TableClient) -> None:
        super().__init__(client)
        self._step = _SentStep()

    def send(self, gradients: Mapping[str, Exchanged]) -> None:
        self._step.gradients.update(gradients)

    def send_barrier(self) -> None:
        step = self._step
        given, step.gradients = step.gradients, {}
        step.fresh = self.client.push(given, wants=True)

    def receive(self, parameters: Mapping[str, Tensor], *, wait: bool) -> None:  # noqa: ARG002
        fresh = self._step.fresh
        overwrite(parameters, self.client.pull() if fresh is None else fresh)

    def fetch_barrier(self) -> None:
        self._step.fresh = None


class _SentStep(threading.local):
    """What one thread that trains has sent, and what it was answered."""

    def __init__(self) -> None:
        self.gradients: dict[str, Any] = {}
        self.fresh: dict[str, Tensor] | None = None


def overwrite(parameters: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Copies values into parameters of the same names; those that have none stay."""
    for name, own in parameters.items():
        if name in values:
            own.copy_(values[name])
