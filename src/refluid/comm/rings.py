"""Groups of the job's processes by number, as operators name them: `ring_id`."""

from __future__ import annotations

from refluid.comm.communicator import Communicator
from refluid.comm.world import world
from refluid.core.errors import EnforceNotMet

# None where this process isn't in the group.
_rings: list[Communicator | None] = []


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
