"""Which process this is, and how it joins the others."""

from __future__ import annotations

from refluid.collective.job import TrainingJob, job_of_environment, joined
from refluid.comm.world import leave, world
from refluid.fluid.dygraph.parallel import ParallelEnv as FluidEnv
from refluid.paddle.distributed.groups import Group, drop_group, drop_groups

__all__ = [
    "ParallelEnv",
    "destroy_process_group",
    "get_backend",
    "gloo_barrier",
    "gloo_init_parallel_env",
    "gloo_release",
    "init_parallel_env",
    "is_available",
    "is_initialized",
]


class ParallelEnv(FluidEnv):
    """Which process this is, from the launcher's variables of the environment."""

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        return self.local_rank

    @property
    def world_size(self) -> int:
        """How many processes train."""
        return self.nranks

    @property
    def device_id(self) -> int:
        """Number of its GPU."""
        return self.dev_id


def init_parallel_env() -> None:
    """Joins the other processes that the launcher, or `spawn`, has started.

    Nothing to do for a process alone. PeerFailed names those that don't come.
    """
    job = job_of_environment()
    if job is not None and job.size > 1:
        joined(job)


def is_initialized() -> bool:
    """Whether this process has joined others."""
    return world().size > 1


def is_available() -> bool:
    """True: processes can train together."""
    return True


def get_backend(group: Group | None = None) -> str:
    """How values of dygraph go between processes: "GLOO". RuntimeError outside of the group.

    Gradients on GPUs go by NCCL where each process has one of its own.
    """
    if group is not None and not group.is_member():
        raise RuntimeError(f"this process is none of group {group.id}, {list(group.ranks)}")
    return "GLOO"


def destroy_process_group(group: Group | None = None) -> None:
    """Leaves a group; without one, or with that of all processes, all groups.

    ValueError for one that was left before.
    """
    if group is None or group.id == 0:
        drop_groups()
        leave()
    else:
        drop_group(group)


def gloo_init_parallel_env(rank_id: int, rank_num: int, server_endpoint: str) -> None:
    """Joins `rank_num` processes on CPUs as number `rank_id`, who meet at `server_endpoint`.

    That is `host:port`, where number 0 listens. EnforceNotMet for another number or address;
    PeerFailed names those that don't come.
    """
    others = (f"process {number}" for number in range(1, rank_num))
    joined(TrainingJob(rank_id, (server_endpoint, *others)))


def gloo_barrier() -> None:
    """Waits for all processes of `gloo_init_parallel_env`."""
    world().barrier()


def gloo_release() -> None:
    """Leaves the processes of `gloo_init_parallel_env`."""
    destroy_process_group()
