"""How a trainer's program reaches the servers of its tables: links, by servers and trainer.

Operators find their link here; who connects puts it here (`refluid.pserver`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from torch import Tensor

from refluid.comm.alone import ALONE
from refluid.comm.communicator import Communicator, Exchanged
from refluid.comm.local import LocalMember
from refluid.core.errors import EnforceNotMet

Where = tuple[tuple[str, ...], int]
# After a table's name: the ids that a step looked up in it, where what was looked up is sent (GEO).
LOOKED_UP = "@IDS"


class ServerLink(Protocol):
    """A trainer's end. Parameters, gradients and tables go by their names in the program."""

    def send(self, gradients: Mapping[str, Exchanged]) -> None:
        """Hands gradients on. They may be sent later, and must not be changed by the caller."""

    def send_barrier(self) -> None:
        """Returns once the servers have applied what was sent, with that of other trainers."""

    def receive(self, parameters: Mapping[str, Tensor], *, wait: bool) -> None:
        """Overwrites parameters with what the servers have.

        wait: as it is now; else, where servers are asked in the background, what came last.
        """

    def fetch_barrier(self) -> None:
        """Returns once this trainer has all that it asked for."""

    def look_up(self, table: str, ids: Sequence[Tensor]) -> Sequence[Tensor]:
        """The rows of ids, int64 of any shape: (*shape, width) for each."""

    def announce(self, ids: Mapping[str, Sequence[Tensor]]) -> None:
        """Says which ids the next step of this thread will probably look up, by their tables."""

    def save(self, folder: str, table: str) -> None:
        """Writes a table of the servers, or all that they hold for "", to a folder."""


_links: dict[Where, ServerLink | Callable[[], ServerLink]] = {}


def put_link(where: Where, link: ServerLink | Callable[[], ServerLink]) -> None:
    """Makes it the link of a trainer; a function is called when it is first needed."""
    _links[where] = link


def drop_link(where: Where) -> None:
    """Forgets the link of a trainer."""
    _links.pop(where, None)


def link_of(endpoints: Sequence[str], trainer: int) -> ServerLink:
    """The link of a trainer. EnforceNotMet where nobody connected it."""
    where = tuple(endpoints), trainer
    found = _links.get(where)
    if found is None:
        raise EnforceNotMet(
            f"trainer {trainer} isn't connected to servers {', '.join(endpoints)}: run the program "
            "in the process that transpiled it, after fleet.init_worker() where there is a fleet, "
            "and not after stop_worker() or Executor.close()"
        )
    if callable(found):
        found = _links[where] = found()
    return found


def connected() -> list[ServerLink]:
    """All links that were needed so far."""
    return [one for one in _links.values() if not callable(one)]


def replicas_here(comm: Communicator) -> Communicator:
    """The replicas of this process, of all those that `comm` joins."""
    if isinstance(comm, LocalMember) or comm.size == 1:
        return comm
    from refluid.comm.grid import ReplicaGrid  # few programs have replicas in several processes

    return comm.row if isinstance(comm, ReplicaGrid) else ALONE
