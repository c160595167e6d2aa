"""Roles of processes that an MPI launcher started, as the environment that it sets says.

Neither MPI nor a package for it is needed: processes meet at a port of the first one's host.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np

from refluid.comm.meeting import meet_at
from refluid.core import flags
from refluid.core.errors import EnforceNotMet, PeerFailed
from refluid.core.flags import environment_int, environment_str
from refluid.core.ports import free_port
from refluid.fluid.incubate.fleet.base.roles import Role, RoleMakerBase

# Of each launcher (Open MPI, MVAPICH, MPICH and Intel MPI, Slurm): the variables with the number of
# a process, how many there are, and how many on this host.
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE"),
)
_HOST, _PORT, _USUAL_PORT = "MASTER_ADDR", "MASTER_PORT", 29500
_PER_NODE = 2  # a server and a worker


class _ByLauncher(NamedTuple):
    """What a launcher says of this process; here: how many are on this host, None if unknown."""

    rank: int
    size: int
    here: int | None


class MPIRoleMaker(RoleMakerBase):
    """Processes numbered by an MPI launcher; where each listens all of them know.

    They meet at MASTER_ADDR, this host where all are on it, and MASTER_PORT, 29500 unless set.
    EnforceNotMet where no launcher says who this process is, or where processes meet; PeerFailed
    where one doesn't come.
    """

    def __init__(self) -> None:
        super().__init__()
        self._started: _ByLauncher | None = None
        self._store: Any = None
        self._ip = ""
        self._waits = 0

    def generate_role(self) -> None:
        """Meets the others, the first time."""
        if self._role_is_generated:
            return
        own = self._started = _of_environment()
        patience = float(flags.value("refluid_meeting_seconds"))
        meeting = meet_at(_place(own), own.rank, own.size, patience)
        meeting.roll.leave()  # the roles' own store is all that is asked later
        self._store, self._ip = meeting.store, meeting.host
        endpoint = f"{meeting.host}:{free_port()}"
        self._arrange(own.rank, self._exchanged("endpoint", own.rank, own.size, endpoint))
        self._role_is_generated = True

    def get_local_ip(self) -> str:
        """The address of this host, as the others reach it."""
        self._find_out()
        return self._ip

    def _arrange(self, rank: int, endpoints: list[str]) -> None:
        """Says who does what: all are workers."""
        self._role, self._current_id, self._worker_endpoints = Role.WORKER, rank, endpoints

    def _exchanged(self, what: str, rank: int, size: int, value: Any) -> list[Any]:
        """The values of all of them, by number."""
        self._store.set(f"{what}/{rank}", json.dumps(value))
        patience = timedelta(seconds=float(flags.value("refluid_exchange_seconds")))
        found = []
        for other in range(size):
            try:
                self._store.wait([f"{what}/{other}"], patience)
                found.append(json.loads(self._store.get(f"{what}/{other}")))
            except RuntimeError as error:
                raise PeerFailed(f"process {other} of {size} didn't come: {error}") from error
        return found

    def barrier_all(self) -> None:
        """Waits for all processes, servers too."""
        self._find_out()
        assert self._started is not None
        self._waits += 1
        self._exchanged(f"wait {self._waits}", self._started.rank, self._started.size, 0)

    def _get_rank(self) -> int:
        self._find_out()
        return self._started.rank if self._started else 0

    def _get_size(self) -> int:
        self._find_out()
        return self._started.size if self._started else 1

    def _finalize(self) -> None:
        """Nothing is left open."""


class MPISymetricRoleMaker(MPIRoleMaker):
    """As many servers as workers: each host has processes in pairs, a server and then a worker.

    EnforceNotMet where their number is odd, and as of `MPIRoleMaker`.
    """

    def _arrange(self, rank: int, endpoints: list[str]) -> None:
        if len(endpoints) % _PER_NODE:
            raise EnforceNotMet(
                f"MPISymetricRoleMaker needs a server for each worker: start an even number of "
                f"processes, not {len(endpoints)}"
            )
        self._server_endpoints, self._worker_endpoints = endpoints[::2], endpoints[1::2]
        self._role = Role.WORKER if rank % _PER_NODE else Role.SERVER
        self._current_id = rank // _PER_NODE

    @property
    def _node_type_comm(self) -> _Alike:
        return _Alike(self)


class _Alike:
    """What scripts call of an MPI communicator of those that do the same, by mpi4py's names."""

    def __init__(self, role_maker: RoleMakerBase) -> None:
        self._role_maker = role_maker

    def Allreduce(self, sendbuf: Any, recvbuf: Any) -> None:
        """Writes the sum over all workers' arrays to `recvbuf`."""
        self._role_maker.all_reduce_worker(np.asarray(sendbuf), recvbuf)

    def allgather(self, sendobj: Any) -> list[Any]:
        """What each worker gives, by its number."""
        return self._role_maker.all_gather(sendobj)

    def Barrier(self) -> None:
        """Waits for all workers."""
        self._role_maker.barrier_worker()

    barrier = Barrier


def _of_environment() -> _ByLauncher:
    for rank, size, here in _LAUNCHERS:
        number, count = environment_int(rank, None), environment_int(size, None)
        if number is not None and count is not None:
            told = environment_str(here) or ""
            return _ByLauncher(number, count, int(told) if told.isdigit() else None)
    names = ", ".join(rank for rank, _, _ in _LAUNCHERS)
    raise EnforceNotMet(
        f"no MPI launcher started this process: the environment has none of {names}. Start the "
        "script by mpirun or srun, or call fleet.init(PaddleCloudRoleMaker()) and start it by "
        "refluid launch --server_num 1 --worker_num 1"
    )


def _place(own: _ByLauncher) -> tuple[str, int]:
    """Where processes meet."""
    port = environment_int(_PORT, _USUAL_PORT) or _USUAL_PORT
    host = environment_str(_HOST)
    if host is None and own.here == own.size:
        host = "127.0.0.1"
    if host is None:
        raise EnforceNotMet(
            f"processes on several hosts meet at {_HOST}: set it to the address of the host of "
            f"process 0 (mpirun -x {_HOST}=.., srun --export=ALL,{_HOST}=..)"
        )
    return host, port
