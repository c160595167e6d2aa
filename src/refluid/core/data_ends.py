"""Ends of passes over data, which trainers of several processes wait at for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class _Attendance(Protocol):
    steps: int

    def finish(self) -> None: ...


# That of this process's group, where it has joined one.
attending: list[_Attendance] = []


def steps_together() -> int:
    """How many steps this trainer has run along with others."""
    return attending[-1].steps if attending else 0


def end_of_data(begun: int) -> None:
    """A pass over data is at its end, which began when `steps_together` was that.

    Where steps were run with others meanwhile, returns when all trainers are at such an end; until
    then this one repeats steps along with them, contributing nothing.
    """
    reads_ahead = threading.current_thread() is not threading.main_thread()
    if attending and attending[-1].steps > begun and not reads_ahead:
        attending[-1].finish()


Again = Callable[[], Any]
# Takes the updates that follow the last exchange of gradients, where such are repeated.
_following: list[Callable[[Again], None]] = []


def follow(take: Callable[[Again], None] | None) -> None:
    """Gradients were exchanged: gives the updates that follow, as what makes them once more."""
    _following[:] = [] if take is None else [take]


@contextmanager
def one_update(again: Again) -> Iterator[None]:
    """Around an update by gradients, of which those within are parts.

    again: makes it once more; a trainer without data does so after each exchange that it repeats.
    """
    if not _following:
        yield
        return
    take = _following.pop()
    yield
    if not _following:  # else gradients were exchanged within
        _following.append(take)
        take(again)


def made_once(again: Again) -> Any:
    """What an update by gradients gives, which `again` makes; as within `one_update`."""
    if not _following:
        return again()
    with one_update(again):
        return again()
