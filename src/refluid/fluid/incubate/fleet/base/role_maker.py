"""Role makers: whether a process is a worker or a server, its number, and where the others are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core.job_variables import job_int, job_str
from refluid.fluid.incubate.fleet.base.mpi_roles import MPIRoleMaker, MPISymetricRoleMaker
from refluid.fluid.incubate.fleet.base.roles import MockBarrier, Role, RoleMakerBase

__all__ = [
    "GeneralRoleMaker",
    "MPIRoleMaker",
    "MPISymetricRoleMaker",
    "MockBarrier",
    "PaddleCloudRoleMaker",
    "Role",
    "RoleMakerBase",
    "UserDefinedCollectiveRoleMaker",
    "UserDefinedRoleMaker",
]


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
            self._current_id = job_int("PADDLE_TRAINER_ID", 0)
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


class GeneralRoleMaker(PaddleCloudRoleMaker):
    """As the same variables say, and `PADDLE_TRAINER_ENDPOINTS`, by which workers meet.

    What is given (`path`, `http_ip_port`, `hdfs_name`, ..) says how Fluid's processes meet, and
    changes nothing. Workers alone wait for each other: servers end when all of them have.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self._given = kwargs

    def _read_servers(self) -> None:
        super()._read_servers()
        self._worker_endpoints = _endpoints("PADDLE_TRAINER_ENDPOINTS")

    def get_local_endpoint(self) -> str:
        """Where this process is, as `host:port`."""
        self._find_out()
        everyone = self._server_endpoints if self.is_server() else self._worker_endpoints
        return everyone[self._current_id]

    def server_num(self) -> int:
        """How many servers there are."""
        return len(self.get_pserver_endpoints())

    def barrier_all(self) -> None:
        """Waits for all workers, of a worker; a server waits for nobody."""
        if self.is_worker():
            self.barrier_worker()


def _variable(name: str) -> str:
    found = job_str(name)
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
