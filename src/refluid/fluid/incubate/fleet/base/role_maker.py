"""Role makers: whether a process is a worker or a server, its number, and where the others are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from refluid.collective.job import joined_as
from refluid.comm import ALONE, Communicator
from refluid.comm.values import gather_values
from refluid.core.flags import environment_int, environment_str

__all__ = [
    "PaddleCloudRoleMaker",
    "Role",
    "RoleMakerBase",
    "UserDefinedCollectiveRoleMaker",
    "UserDefinedRoleMaker",
]


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


class PaddleCloudRoleMaker(RoleMakerBase):
    """As the `PADDLE_*` variables of the environment say.

    is_collective: all processes are workers. ValueError where a variable is missing.
    """

    def __init__(self, is_collective: bool = False) -> None:
        super().__init__()
        self._is_collective = is_collective
        self._trainers_num = 0

    def generate_role(self) -> None:
        """Reads the environment, the first time."""
        if self._role_is_generated:
            return
        if self._is_collective:
            self._role = Role.WORKER
            self._current_id = environment_int("PADDLE_TRAINER_ID", 0) or 0
            self._worker_endpoints = _endpoints("PADDLE_TRAINER_ENDPOINTS")
            self._trainers_num = len(self._worker_endpoints)
        else:
            self._read_servers()
        self._role_is_generated = True

    def _read_servers(self) -> None:
        self._server_endpoints = _endpoints("PADDLE_PSERVERS_IP_PORT_LIST")
        self._trainers_num = int(_variable("PADDLE_TRAINERS_NUM"))
        role = _variable("TRAINING_ROLE")
        if role == "TRAINER":
            self._role = Role.WORKER
            self._current_id = int(_variable("PADDLE_TRAINER_ID"))
        elif role == "PSERVER":
            self._role = Role.SERVER
            own = f"{_variable('POD_IP')}:{_variable('PADDLE_PORT')}"
            if own not in self._server_endpoints:
                raise ValueError(f"{own} is none of the servers {self._server_endpoints}")
            self._current_id = self._server_endpoints.index(own)
        else:
            raise ValueError("TRAINING_ROLE must be PSERVER or TRAINER")

    def worker_num(self) -> int:
        self._find_out()
        return self._trainers_num


def _variable(name: str) -> str:
    found = environment_str(name)
    if found is None:
        raise ValueError(
            f"The role of this process can't be told: the environment has no {name}, which "
            "python -m paddle.distributed.launch sets"
        )
    return found


def _endpoints(name: str) -> list[str]:
    return [one for one in _variable(name).split(",") if one]


class UserDefinedRoleMaker(RoleMakerBase):
    """As told: number, role, how many workers, and where the servers are."""

    def __init__(
        self,
        current_id: int = 0,
        role: int = Role.WORKER,
        worker_num: int = 0,
        server_endpoints: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        if role not in (Role.WORKER, Role.SERVER):
            raise TypeError(f"role must be Role.WORKER or Role.SERVER, not {role!r}")
        self._server_endpoints = _unique(server_endpoints, "server_endpoints")
        if role == Role.SERVER and current_id >= len(self._server_endpoints):
            raise ValueError(
                f"if role is Role.SERVER, current_id should be less than the number of servers, "
                f"{len(self._server_endpoints)}, not {current_id}"
            )
        self._current_id = _number(current_id, "current_id", 0)
        self._role = role
        self._worker_num = _number(worker_num, "worker_num", 1)

    def worker_num(self) -> int:
        return self._worker_num


class UserDefinedCollectiveRoleMaker(RoleMakerBase):
    """As told: the number of this worker, and where all are."""

    def __init__(self, current_id: int = 0, worker_endpoints: Sequence[str] | None = None) -> None:
        super().__init__()
        self._worker_endpoints = _unique(worker_endpoints, "worker_endpoints")
        self._current_id = _number(current_id, "current_id", 0)
        if self._current_id >= len(self._worker_endpoints):
            raise ValueError(
                f"current_id should be less than the number of workers, "
                f"{len(self._worker_endpoints)}, not {current_id}"
            )
        self._role = Role.WORKER


def _number(given: Any, name: str, least: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"{name} must be as int, not {type(given).__name__}")
    if given < least:
        raise ValueError(f"{name} should be at least {least}, not {given}")
    return given


def _unique(given: Sequence[str] | None, name: str) -> list[str]:
    if not isinstance(given, list):
        raise TypeError(f"{name} must be a list of 'host:port', not {type(given).__name__}")
    if not given or len(set(given)) != len(given):
        raise ValueError(f"{name} must name each process once: {given}")
    return list(given)
