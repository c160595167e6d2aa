"""The group of all trainers of a job: this process alone, until it joins the others.

Groups of some of its processes have numbers, as operators name them: `ring_id`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from refluid.comm.alone import ALONE
from refluid.comm.communicator import Communicator
from refluid.core.data_ends import attending
from refluid.core.errors import EnforceNotMet

if TYPE_CHECKING:
    from refluid.comm.attendance import Attendance

_joined: list[tuple[Communicator, Attendance | None]] = []
# None where this process isn't in the group.
_rings: list[Communicator | None] = []


def world() -> Communicator:
    """This process's end of the group."""
    return _joined[-1][0] if _joined else ALONE


def add_ring(comm: Communicator | None) -> int:
    """Gives a group a number, from 1, the same in all processes that make the same groups."""
    _rings.append(comm)
    return len(_rings)


def ring(number: int) -> Communicator:
    """This process's end of the group of that number; 0: of all processes.

    EnforceNotMet where there is none, or this process isn't in it.
    """
    if number == 0:
        return world()
    found = _rings[number - 1] if 0 < number <= len(_rings) else None
    if found is None:
        raise EnforceNotMet(
            f"this process is in no group of ring_id {number}: make it by "
            "paddle.distributed.new_group or by degrees of fleet.init's strategy, in all processes"
        )
    return found


def attendance() -> Attendance | None:
    """Which trainers still have data; None where this process is alone."""
    return _joined[-1][1] if _joined else None


def attended(comm: Communicator) -> Communicator:
    """The same, summing over the trainers that still have data."""
    there = attendance()
    if there is None:
        return comm
    from refluid.comm.attended import attended_by  # most programs have one trainer

    return attended_by(comm, there)


def all_have_data(what: str) -> None:
    """EnforceNotMet where a trainer is without data while the others go on to do this."""
    there = attendance()
    if there is not None:
        there.settle_with_all(what)


def enter(comm: Communicator) -> None:
    """Makes `comm` the group of all trainers, until it is left."""
    from refluid.comm.attendance import Announcing, Attendance  # most programs have one trainer

    there = Attendance(comm) if isinstance(comm, Announcing) else None
    _joined.append((comm, there))
    if there is not None:
        _joined[-1] = attended(comm), there
        attending.append(there)


def leave() -> None:
    """Closes the group; this process is alone again."""
    if _joined:
        comm, there = _joined.pop()
        if there is not None:
            attending.remove(there)
        comm.close()


def ownership_hint() -> str:
    """What to say besides where a variable has no value in this process."""
    if world().size == 1:
        return ""
    return (
        " With sharding, or in Reduce mode, another trainer may own it: fleet.save_persistables, "
        "called by all workers, saves what they own."
    )
