"""Memory that a server shares with a caller of its host: what messages hold lies there.

The server makes it, of a size that nobody can change any more, and hands it to whoever calls by its
name within the host. Calls are written to one half, answers to the other. Either end copies what
the other wrote before it looks at it: what is checked can't change afterwards. Only rows, which may
be any numbers, are used where they lie.
"""

from __future__ import annotations

import ctypes
import fcntl
import logging
import mmap
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from refluid.core import flags
from refluid.pserver.messages import MalformedMessage

_get_core: Any = getattr(ctypes.PyDLL(None), "sched_getcpu", None)
_LOGGER = logging.getLogger("refluid")
# Of each half. What is longer goes through the socket; pages that nobody wrote take no memory.
HALF = 2**25
# The last bytes of each half: the core on which its end wrote last, counted from 1.
_CORE = 8
_GREETING = b"M"


class NearMemory:
    """One end of memory that two processes share: writes one half of it, reads the other."""

    def __init__(self, descriptor: int, *, serves: bool) -> None:
        whole = np.frombuffer(mmap.mmap(descriptor, 2 * HALF), np.uint8)
        calls, answers = whole[:HALF], whole[HALF:]
        self._written, self._read = (answers, calls) if serves else (calls, answers)
        self._own_core, self._its_core = (
            half[-_CORE:].view(np.int64) for half in (self._written, self._read)
        )

    def room(self, size: int) -> np.ndarray[Any, Any] | None:
        """Where the other end reads so many bytes; None where they don't fit."""
        return self._written[:size] if size <= HALF - _CORE else None

    @property
    def core(self) -> int:
        """The core on which the other end wrote last, by what it says; -1 where it didn't."""
        return int(self._its_core[0]) - 1

    def tell_core(self) -> None:
        """Says on which core this end is."""
        self._own_core[0] = own_core() + 1

    def read(self, size: int, *, copied: bool) -> np.ndarray[Any, Any]:
        """What the other end wrote first, so many bytes of it. MalformedMessage for too many.

        copied: else they are those of the memory itself, and may change at any time.
        """
        if size > HALF:
            raise MalformedMessage(f"{size} bytes in memory that has {HALF}")
        found = self._read[:size]
        return found.copy() if copied else found


def own_core() -> int:
    """The core that runs this thread, which may be another one a moment later; -1 where none can
    be told."""
    return -1 if _get_core is None else int(_get_core())


def greet(caller: socket.socket) -> NearMemory | None:
    """The server's end of a call within the host: hands memory over, or says that there is none."""
    made: NearMemory | None = None
    with _new_memory() as descriptor:
        if descriptor is not None:
            made = NearMemory(descriptor, serves=True)
            socket.send_fds(caller, [_GREETING], [descriptor])
        else:
            caller.sendall(_GREETING)
    return made


def greeted(server: socket.socket) -> NearMemory | None:
    """The caller's end: the memory that a server hands over as a connection begins.

    None where it has none to give. OSError where the server ends, or says something else.
    """
    told, descriptors, *_ = socket.recv_fds(server, 1, 1, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    try:
        if told != _GREETING:
            raise ConnectionError("the connection was closed as it began")
        wanted = flags.value("refluid_near_memory") and descriptors
        return NearMemory(descriptors[0], serves=False) if wanted else None
    finally:
        for one in descriptors:
            os.close(one)


@contextmanager
def _new_memory() -> Iterator[int | None]:
    """A descriptor of memory whose size is for good; None where there is no such thing."""
    if sys.platform != "linux" or not flags.value("refluid_near_memory"):
        yield None
        return
    try:
        made = os.memfd_create("refluid messages", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        _LOGGER.warning("messages of a caller of this host go through its socket: %s", error)
        yield None
        return
    try:
        os.ftruncate(made, 2 * HALF)
        fcntl.fcntl(made, fcntl.F_ADD_SEALS, _SEALS)
        yield made
    finally:
        os.close(made)


_SEALS = sum(getattr(fcntl, f"F_SEAL_{one}", 0) for one in ("SHRINK", "GROW", "SEAL"))
