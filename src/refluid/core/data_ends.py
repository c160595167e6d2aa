"""Ends of passes over data, which trainers of several processes wait at for each other."""

from __future__ import annotations

import threading
from typing import Protocol


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
