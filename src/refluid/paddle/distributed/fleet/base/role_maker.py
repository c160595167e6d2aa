"""Role makers of Paddle 2: what a process is, by the environment or as told."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.collective.job import job_of_environment
from refluid.core.flags import environment_str
from refluid.fluid.incubate.fleet.base import role_maker as fluid
from refluid.fluid.incubate.fleet.base.role_maker import Role, RoleMakerBase

__all__ = ["PaddleCloudRoleMaker", "Role", "RoleMakerBase", "UserDefinedRoleMaker"]

_ALONE = "127.0.0.1:6170"
# Without any of them a process is no part of a job with servers.
_OF_JOBS = ("PADDLE_PSERVERS_IP_PORT_LIST", "TRAINING_ROLE")


class _Named(RoleMakerBase):
    """Paddle 2's names of what a role maker tells."""

    def _is_worker(self) -> bool:
        return self.is_worker()

    def _is_server(self) -> bool:
        return self.is_server()

    def _is_first_worker(self) -> bool:
        return self.is_first_worker()

    def _worker_num(self) -> int:
        return self.worker_num()

    def _worker_index(self) -> int:
        return self.worker_index()

    def _server_num(self) -> int:
        return len(self.get_pserver_endpoints())

    def _server_index(self) -> int:
        return self.server_index()

    def _get_trainer_endpoints(self) -> list[str]:
        return self.get_trainer_endpoints()

    def _get_pserver_endpoints(self) -> list[str]:
        return self.get_pserver_endpoints()

    def _barrier(self, comm_world: str = "worker") -> None:
        _require_workers(comm_world)
        self.barrier_worker()

    def _all_gather(self, input: Any, comm_world: str = "worker") -> list[Any]:
        _require_workers(comm_world)
        return self.all_gather(input)

    def _all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:
        _require_workers(comm_world)
        if mode not in ("sum", "max", "min"):
            raise ValueError(f"mode must be sum, max or min, not {mode!r}")
        total = np.empty_like(np.asarray(input))
        self.all_reduce_worker(input, total, mode)
        return total


def _require_workers(comm_world: str) -> None:
    if comm_world not in ("worker", "server", "all"):
        raise ValueError(f"comm_world must be worker, server or all, not {comm_world!r}")
    if comm_world == "server":
        raise NotImplementedError("servers hold tables and exchange nothing with each other")


class PaddleCloudRoleMaker(_Named, fluid.PaddleCloudRoleMaker):
    """As the `PADDLE_*` variables say, or those of torchrun or SLURM; else this process is alone.

    is_collective: all processes are workers. ValueError where a server's variable is missing.
    """

    def __init__(self, is_collective: bool = False, **kwargs: Any) -> None:
        super().__init__(is_collective)
        self._kwargs = kwargs

    def generate_role(self) -> None:
        """Reads the environment, the first time."""
        if self._role_is_generated:
            return
        if not self._is_collective:
            if any(environment_str(name) for name in _OF_JOBS):
                super().generate_role()
                return
            self._role, self._current_id, self._trainers_num = Role.WORKER, 0, 1
            self._role_is_generated = True
            return
        job = job_of_environment()
        self._role = Role.WORKER
        self._current_id = job.rank if job else 0
        alone = environment_str("PADDLE_CURRENT_ENDPOINT") or _ALONE
        self._worker_endpoints = list(job.endpoints) if job else [alone]
        self._trainers_num = len(self._worker_endpoints)
        self._role_is_generated = True


class UserDefinedRoleMaker(_Named):
    """As told: `current_id`, `role`, `worker_num` or `worker_endpoints`, `server_endpoints`.

    TypeError for another name or type, ValueError for a number or list that can't be.
    """

    def __init__(self, is_collective: bool = False, init_gloo: bool = False, **kwargs: Any) -> None:
        super().__init__()
        known = {"current_id", "role", "worker_num", "worker_endpoints", "server_endpoints", "path"}
        unknown = sorted(set(kwargs) - known)
        if unknown:
            raise TypeError(f"UserDefinedRoleMaker takes no {', '.join(unknown)}")
        self._is_collective, self._init_gloo = is_collective, init_gloo
        made: RoleMakerBase
        number = kwargs.get("current_id", 0)
        endpoints = kwargs.get("worker_endpoints")
        if is_collective:
            made = fluid.UserDefinedCollectiveRoleMaker(number, endpoints or [_ALONE])
        else:
            made = fluid.UserDefinedRoleMaker(
                number,
                kwargs.get("role", Role.WORKER),
                kwargs.get("worker_num") or len(endpoints or []),
                kwargs.get("server_endpoints"),
            )
        self._count = made.worker_num()
        self._role, self._current_id = made._role, made._current_id
        self._worker_endpoints = list(endpoints or made._worker_endpoints)
        self._server_endpoints = list(made._server_endpoints)

    def worker_num(self) -> int:
        return self._count
