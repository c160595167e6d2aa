"""`TrainingJob`: which trainer this process is, and where the others are.

Told by the variables that Fluid's launcher sets, or by those of torchrun and SLURM.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from refluid.comm.communicator import Communicator
from refluid.comm.pulse import Pulse
from refluid.comm.world import attendance, enter, leave, world
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.flags import environment_str
from refluid.core.job_variables import job_int, job_str

if TYPE_CHECKING:
    from refluid.comm.processes import Processes

# Where the launcher looks for how the trainers do.
PROGRESS = "REFLUID_PROGRESS"
# Where this process has met others: what is left of a meeting would be taken for the next one.
_met: set[tuple[str, int]] = set()


@dataclass(frozen=True)
class TrainingJob:
    """Trainer `rank` of those at `endpoints` (host:port each), the first of whom all meet at."""

    rank: int
    endpoints: tuple[str, ...]

    def __post_init__(self) -> None:
        count = len(self.endpoints)
        if not 0 <= self.rank < count:
            raise EnforceNotMet(f"trainer {self.rank} is none of {count} trainers, numbered from 0")
        if len(set(self.endpoints)) < count:
            raise EnforceNotMet(f"several trainers have one endpoint: {', '.join(self.endpoints)}")

    @property
    def size(self) -> int:
        """How many trainers there are."""
        return len(self.endpoints)

    @property
    def address(self) -> tuple[str, int]:
        """Where the trainers meet."""
        host, _, port = self.endpoints[0].rpartition(":")
        if not host or not port.isdigit():
            raise EnforceNotMet(
                f"a trainer's endpoint must be host:port, not {self.endpoints[0]!r}"
            )
        return host, int(port)


def job_of_environment() -> TrainingJob | None:
    """As the environment says; None where it says nothing of several trainers."""
    listed = (job_str("PADDLE_TRAINER_ENDPOINTS") or "").split(",")
    endpoints = tuple(one.strip() for one in listed if one.strip())
    return TrainingJob(job_int("PADDLE_TRAINER_ID", 0), endpoints) if endpoints else None


def joined(job: TrainingJob) -> Communicator:
    """The group of the job's trainers, all of whom must call this; met once by a process.

    FLAGS_refluid_meeting_seconds says how long to wait for all to come, and
    FLAGS_refluid_exchange_seconds how long one waits for another afterwards. PeerFailed where one
    doesn't come; EnforceNotMet where this process is in another group already, or met at this
    address before.
    """
    found = world()
    if found.size > 1:
        if (found.rank, found.size) == (job.rank, job.size):
            return found
        raise EnforceNotMet(
            f"this process is trainer {found.rank} of {found.size} already, and can't be trainer "
            f"{job.rank} of {job.size} as well"
        )
    if job.size == 1:
        return found
    if job.address in _met:
        raise EnforceNotMet(
            f"this process met others at {job.endpoints[0]} before and has left them: to meet "
            "again, all need another address"
        )
    from refluid.comm.processes import meet  # programs of one process are spared its imports

    wait = float(flags.value("refluid_meeting_seconds"))
    patience = float(flags.value("refluid_exchange_seconds"))
    group = meet(job.rank, job.size, job.address, wait=wait, patience=patience)
    _met.add(job.address)
    enter(group)
    _tell_progress(group)
    atexit.register(leave)
    return world()


def _tell_progress(group: Processes) -> None:
    """The launcher of this job shows how the trainers do."""
    folder, there = environment_str(PROGRESS), attendance()
    if not folder or there is None:
        return
    from refluid.collective.launch.live import note

    tell = partial(note, Path(folder)) if group.rank == 0 else None
    pulse = Pulse(group.store, group.rank, group.size, lambda: there.waited, tell)
    there.watch = pulse.after_step


def joined_as(rank: int, size: int, endpoints: Sequence[str] = ()) -> Communicator:
    """The group of trainer `rank` of `size`, at endpoints that are given or in the environment.

    Errors as of `joined`; also EnforceNotMet where nobody says where the trainers are.
    """
    if endpoints:
        job = TrainingJob(rank, tuple(endpoints))
    else:
        told = job_of_environment()
        if told is None:
            raise EnforceNotMet(
                f"trainer {rank} of {size} doesn't know where the others are: start the script "
                "by `refluid launch` or `python -m paddle.distributed.launch`, or set "
                "PADDLE_TRAINER_ENDPOINTS=host:port,host:port,.."
            )
        job = told
    if (job.rank, job.size) != (rank, size):
        raise EnforceNotMet(
            f"this process is asked to be trainer {rank} of {size}, but its environment says "
            f"{job.rank} of {job.size}"
        )
    return joined(job)
