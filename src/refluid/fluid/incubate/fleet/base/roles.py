"""`RoleMakerBase`: whether a process is a worker or a server, its number, where the others are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from refluid.collective.job import joined_as
from refluid.comm import ALONE, Communicator
from refluid.comm.values import gather_values


class Role:
    """What a process does."""

    WORKER = 1
    SERVER = 2


class MockBarrier:
    """Waits for nobody: there is one process."""

    def barrier(self) -> None:
        """Waits for all workers."""

    def barrier_all(self) -> None:
        """Waits for all processes."""

    def all_reduce(self, obj: Any) -> Any:
        """The sum over all workers."""
        return obj

    def all_gather(self, obj: Any) -> list[Any]:
        """What each worker gives."""
        return [obj]


class RoleMakerBase:
    """What a process is, once `generate_role` has found out."""

    def __init__(self) -> None:
        self._worker_endpoints: list[str] = []
        self._server_endpoints: list[str] = []
        self._role_is_generated = False
        self._role: int | None = None
        self._current_id = -1

    def is_worker(self) -> bool:
        """Whether it trains."""
        self._find_out()
        return self._role == Role.WORKER

    def is_server(self) -> bool:
        """Whether it holds parameters."""
        self._find_out()
        return self._role == Role.SERVER

    def is_first_worker(self) -> bool:
        """Whether it is the worker with number 0."""
        return self.is_worker() and self._current_id == 0

    def worker_num(self) -> int:
        """How many workers there are."""
        self._find_out()
        return len(self._worker_endpoints)

    def worker_index(self) -> int:
        """The number of this worker."""
        self._find_out()
        return self._current_id

    def server_index(self) -> int:
        """The number of this server."""
        self._find_out()
        return self._current_id

    def get_trainer_endpoints(self) -> list[str]:
        """Where the workers are, as `host:port`."""
        self._find_out()
        return self._worker_endpoints

    def get_pserver_endpoints(self) -> list[str]:
        """Where the servers are, as `host:port`."""
        self._find_out()
        return self._server_endpoints

    def to_string(self) -> str:
        """All of it on one line."""
        return (
            f"role: {self._role}, current_id: {self._current_id}, "
            f"worker_endpoints: {self._worker_endpoints}, "
            f"server_endpoints: {self._server_endpoints}"
        )

    def all_gather(self, input: Any) -> list[Any]:
        """What each worker gives, by its number: numbers, text, and lists and dicts of them."""
        return gather_values(self._workers(), input)

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:
        """Writes the `sum`, `max` or `min` over all workers' arrays to `output`."""
        total = torch.from_numpy(np.array(input))
        self._workers().all_reduce([total], mode)
        output[...] = total.numpy()

    def barrier_worker(self) -> None:
        """Waits for all workers."""
        self._workers().barrier()

    def barrier_all(self) -> None:
        """Waits for all processes."""
        self._workers().barrier()

    # As public scripts call them.

    def _barrier_worker(self) -> None:
        self.barrier_worker()

    def _barrier_all(self) -> None:
        self.barrier_all()

    def _all_gather(self, input: Any) -> list[Any]:
        return self.all_gather(input)

    def _find_out(self) -> None:
        if not self._role_is_generated:
            self.generate_role()

    def generate_role(self) -> None:
        """Finds out what the process is."""
        self._role_is_generated = True

    def _workers(self) -> Communicator:
        """The group of all workers; this one joins it the first time."""
        if self.worker_num() <= 1:
            return ALONE
        return joined_as(self.worker_index(), self.worker_num(), self._worker_endpoints)
