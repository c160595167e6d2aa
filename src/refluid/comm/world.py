"""The group of all trainers of a job: this process alone, until it joins the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refluid.comm.alone import ALONE
from refluid.comm.communicator import Communicator
from refluid.core.data_ends import attending

if TYPE_CHECKING:
    from refluid.comm.attendance import Attendance

_joined: list[tuple[Communicator, Attendance | None]] = []


def world() -> Communicator:
    """This process's end of the group."""
    return _joined[-1][0] if _joined else ALONE


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
