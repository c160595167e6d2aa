"""Waiting for messages to begin: of one connection, or of several, whichever comes first."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator, Mapping
from typing import Protocol

_LEAST = 0.001
_CAN_POLL = hasattr(select, "poll")


class HasSocket(Protocol):
    """What has a socket."""

    @property
    def fileno(self) -> int:
        """The number of its socket."""


def seconds_left(until: float) -> float:
    """Seconds until then, of `time.monotonic`; never none at all."""
    return max(_LEAST, until - time.monotonic())


def until_readable(number: int) -> None:
    """Returns once something can be read from a socket, its other end is gone, or it is closed."""
    if number < 0:
        return
    poll = select.poll()
    poll.register(number, select.POLLIN)
    poll.poll()


def as_they_come(waiting: Mapping[int, HasSocket], until: float) -> Iterator[int]:
    """The keys of connections as their next messages begin; at `until` those that are left."""
    left = dict(waiting)
    if len(left) > 1 and _CAN_POLL:
        poll, of_socket = select.poll(), {one.fileno: key for key, one in left.items()}
        for number in of_socket:
            poll.register(number, select.POLLIN)
        while len(left) > 1 and (begun := poll.poll(1000 * seconds_left(until))):
            for number, _ in begun:
                poll.unregister(number)
                del left[of_socket[number]]
                yield of_socket[number]
    yield from left
