"""Which process this is, and how it joins the others."""

from __future__ import annotations

from refluid.collective.job import job_of_environment, joined
from refluid.comm.world import world
from refluid.fluid.dygraph.parallel import ParallelEnv as FluidEnv

__all__ = ["ParallelEnv", "init_parallel_env", "is_initialized"]


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
