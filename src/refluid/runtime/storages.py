"""When the outputs of operators get memory and when that is freed, for the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from refluid.core.events import Allocation, Log
from refluid.kernels.holders import Storage, storage_of


class LiveStorages:
    """Notes in a log when the outputs of operators get memory and when that is freed.

    state: values that had their memory before.
    """

    def __init__(
        self, log: Log, thread: int, device: torch.device, state: Iterable[Any] = ()
    ) -> None:
        self._log, self._thread, self._device = log, thread, str(device)
        self._live: dict[int, tuple[Storage, Allocation]] = {}
        self._running = ""
        self._before = {one.key: one for value in state if (one := storage_of(value))}

    def made(self, operator: str, values: Sequence[Any], now: int) -> None:
        """An operator ended at `now` with these outputs."""
        self._sweep(now)
        self._running = operator
        for value in values:
            storage = storage_of(value)
            if storage is None or storage.key in self._live or storage.key in self._before:
                continue
            size = value.untyped_storage().nbytes()
            allocation = Allocation(now, None, size, self._thread, self._device, operator)
            self._live[storage.key] = (storage, allocation)
            self._log.allocations.append(allocation)

    def end(self) -> None:
        """The step has ended."""
        if self._live:
            self._sweep(max(allocation.start for _, allocation in self._live.values()))

    def _sweep(self, now: int) -> None:
        gone = [key for key, (storage, _) in self._live.items() if storage.expired()]
        for key in gone:
            _, allocation = self._live.pop(key)
            allocation.end, allocation.freed_by = now, self._running
