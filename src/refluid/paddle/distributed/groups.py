"""Groups of the job's processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refluid.collective.job import job_of_environment
from refluid.comm import ALONE, Communicator
from refluid.comm.world import add_ring, world

__all__ = ["Group", "get_group", "get_rank", "get_world_size", "new_group"]


@dataclass(frozen=True)
class Group:
    """Processes by their numbers in the job, in order. id: its number, 0 for all of them."""

    id: int
    ranks: tuple[int, ...]
    comm: Communicator | None

    @property
    def rank(self) -> int:
        """The number of this process in the group, -1 where it isn't in it."""
        return -1 if self.comm is None else self.comm.rank

    @property
    def nranks(self) -> int:
        """How many processes it has."""
        return len(self.ranks)

    world_size = nranks

    def is_member(self) -> bool:
        """Whether this process is in it."""
        return self.comm is not None

    def get_group_rank(self, rank: int) -> int:
        """The number in the group of the job's process `rank`, -1 where it isn't in it."""
        return self.ranks.index(rank) if rank in self.ranks else -1


_groups: dict[int, Group] = {}


def everyone() -> Group:
    """The group of all processes of the job."""
    comm = world()
    return Group(0, tuple(range(comm.size)), comm)


def new_group(
    ranks: Sequence[int] | None = None, backend: str | None = None, timeout: Any = None
) -> Group:
    """The group of some of the job's processes, all of whom must call this, in the same order.

    ValueError for a number that no process has.
    """
    comm = world()
    chosen = tuple(sorted(range(comm.size) if ranks is None else set(ranks)))
    if chosen and not 0 <= chosen[0] <= chosen[-1] < comm.size:
        raise ValueError(f"the job has processes 0 to {comm.size - 1}, not {list(chosen)}")
    own = ALONE if comm.size == 1 else comm.split(0 if comm.rank in chosen else None)
    return _added(chosen, own if comm.rank in chosen else None)


def own_part(parts: Sequence[Sequence[int]]) -> Group:
    """The group of this process, of those that have each of the job's processes once.

    All processes must call this, in the same order.
    """
    comm = world()
    at, own = next((at, part) for at, part in enumerate(parts) if comm.rank in part)
    alone = all(len(part) == 1 for part in parts)
    return _added(tuple(own), ALONE if alone else comm.split(at))


def _added(ranks: tuple[int, ...], comm: Communicator | None) -> Group:
    made = Group(add_ring(comm), ranks, comm)
    _groups[made.id] = made
    return made


def get_group(id: int = 0) -> Group:
    """The group of that number; ValueError where there is none."""
    if id == 0:
        return everyone()
    if id not in _groups:
        raise ValueError(f"there is no group {id}")
    return _groups[id]


def drop_group(group: Group) -> None:
    """Closes this process's end of a group. ValueError for one that there isn't."""
    get_group(group.id)
    own = _groups.pop(group.id).comm
    if own is not None:
        own.close()


def drop_groups() -> None:
    """Closes this process's ends of all groups but that of all processes."""
    for group in list(_groups.values()):
        drop_group(group)


def get_rank(group: Group | None = None) -> int:
    """The number of this process, in the job or in a group, where -1 says that it isn't in it."""
    if group is not None:
        return group.rank
    job = job_of_environment()
    return job.rank if job is not None else 0


def get_world_size(group: Group | None = None) -> int:
    """How many processes there are, in the job or in a group; -1 where this one isn't in it."""
    if group is not None:
        return group.nranks if group.is_member() else -1
    job = job_of_environment()
    return job.size if job is not None else 1
