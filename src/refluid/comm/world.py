"""The group of all trainers of a job: this process alone, until it joins the others."""

from __future__ import annotations

from refluid.comm.alone import ALONE
from refluid.comm.communicator import Communicator

_joined: list[Communicator] = []


def world() -> Communicator:
    """This process's end of the group."""
    return _joined[-1] if _joined else ALONE


def enter(comm: Communicator) -> None:
    """Makes `comm` the group of all trainers, until it is left."""
    _joined.append(comm)


def leave() -> None:
    """Closes the group; this process is alone again."""
    if _joined:
        _joined.pop().close()
