"""Both ends of a connection within a host, for tests: the caller's memory is written by hand."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from refluid.pserver.near_memory import NearMemory, greeted
from refluid.pserver.wire import MessageSocket


@contextmanager
def ends() -> Iterator[tuple[socket.socket, NearMemory, MessageSocket]]:
    """The caller's socket and memory, and the server's end."""
    caller, served = socket.socketpair(socket.AF_UNIX)
    with caller, served:
        server = MessageSocket.accepted(served, "127.0.0.1:1", None, 5.0)
        memory = greeted(caller)
        assert memory is not None
        yield caller, memory, server


def put(memory: NearMemory, raw: bytes) -> None:
    """Writes where the other end reads."""
    room = memory.room(len(raw))
    assert room is not None
    room[:] = np.frombuffer(raw, np.uint8)


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds
