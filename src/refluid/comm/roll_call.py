"""`RollCall`: who of a meeting is still there, and what was found to be wrong first.

A process that dies takes its connections along, and so do those that leave because of it. So that
all name the one that failed, each tells the store what it found before it leaves, and each listens
at a port at which nobody answers but the system: as long as the process is there. Where one hangs
others wait for each other too: it is the one that does not even say so.
"""

from __future__ import annotations

import errno
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

T = TypeVar("T")
Address = tuple[str, int]
_KEY, _NAME = "found first", "refluid roll call"
# Seconds: to say that one is there; until another tells what it found; for the store to answer.
_ANSWER, _MOMENT, _GRACE = 1.0, 3.0, 1.0
# How long a process that dies may have some of its connections after others are gone.
_CLOSING = 0.5
_AGAIN = 0.05
_REFUSED = {errno.ECONNREFUSED, errno.ECONNRESET}


def in_time(call: Callable[[], T], seconds: float, name: str) -> T | Exception:
    """What the call gives or raises; TimeoutError after so long: it is then left behind."""
    found: list[T | Exception] = [TimeoutError("there was no answer in time")]

    def does() -> None:
        try:
            found.append(call())
        except Exception as error:  # handed to who waits for it
            found.append(error)

    thread = threading.Thread(target=does, name=name, daemon=True)
    thread.start()
    thread.join(max(seconds, 0.0))
    return found[-1]


class RollCall:
    """store: of the meeting. listener: of this process, number `rank`. addresses: at which all
    listen, by rank."""

    def __init__(
        self, store: Any, rank: int, listener: socket.socket, addresses: Sequence[Address]
    ) -> None:
        self._store, self._rank = store, rank
        self._listener, self._addresses = listener, addresses
        self._lost = False

    @property
    def size(self) -> int:
        """How many have met."""
        return len(self._addresses)

    def gone(self, ranks: Sequence[int]) -> list[int]:
        """Those of whom the system of their machine says that they are not there any more."""
        until, found = time.monotonic() + _CLOSING, list[int]()
        while not found and time.monotonic() < until:  # connections end one after the other
            found = self._refusing(ranks)
            if not found:
                time.sleep(_AGAIN)
        return found

    def _refusing(self, ranks: Sequence[int]) -> list[int]:
        asked = {rank: _begun(self._addresses[rank]) for rank in ranks}
        probes = {probe: rank for rank, probe in asked.items()}
        until, waiting = time.monotonic() + _ANSWER, list(probes)
        found: list[int] = []
        while waiting and (left := until - time.monotonic()) > 0:
            for probe in select.select([], waiting, [], left)[1]:
                if probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in _REFUSED:
                    found.append(probes[probe])
                waiting.remove(probe)
        for probe in probes:
            probe.close()
        return sorted(found)

    def silent(self, ranks: Sequence[int]) -> list[int]:
        """Those of them that don't say within a moment that they can't go on either; else all."""
        left = list(ranks)

        def ask() -> None:
            until = time.monotonic() + _ANSWER
            while left and time.monotonic() < until:
                left[:] = [one for one in left if not self._store.check([_stuck(one)])]
                time.sleep(_AGAIN)

        self._asked(ask, _ANSWER)
        return list(left) or list(ranks)

    def speak(self) -> None:
        """Says that this one can't go on, but is there."""
        self._asked(lambda: self._store.set(_stuck(self._rank), ""), 0.0)

    def first(self, own: str, *, sure: bool) -> str:
        """What a member has told first: this one if it is `sure` of it, and nobody told before."""
        mine = f"{self._rank} {own}"

        def ask() -> str:
            if not sure:
                self._store.wait([_KEY], timedelta(seconds=_MOMENT))
            return str(self._store.compare_set(_KEY, "", mine).decode())

        told = self._asked(ask, _MOMENT)
        rank, _, text = (told if isinstance(told, str) else mine).partition(" ")
        return text if rank == str(self._rank) else f"{text}. So trainer {rank} found"

    def _asked(self, call: Callable[[], T], seconds: float) -> T | Exception:
        """What the store answers; nothing more once it has not, as where its host is gone."""
        if self._lost:
            return TimeoutError("the store didn't answer")
        found = in_time(call, seconds + _GRACE, _NAME)
        self._lost = isinstance(found, TimeoutError)
        return found

    def leave(self) -> None:
        """This process is there no more."""
        self._listener.close()


def listening(host: str) -> socket.socket:
    """A socket at any port by which others can find out that this process is there."""
    return socket.create_server((host, 0), backlog=128)


def _begun(address: Address) -> socket.socket:
    """A connection to it that is begun."""
    probe = socket.socket()
    probe.setblocking(False)
    probe.connect_ex(address)
    return probe


def _stuck(rank: int) -> str:
    return f"stuck/{rank}"
