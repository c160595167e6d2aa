"""wait_server_ready: waits until servers listen."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterable

__all__ = ["wait_server_ready"]

_PAUSE = 3  # seconds between two attempts


def wait_server_ready(endpoints: Iterable[str]) -> None:
    """Returns when each `host:port` accepts a connection. TypeError for a single text."""
    if isinstance(endpoints, str):
        raise TypeError("endpoints is a list of 'host:port', not a str")
    waiting = list(endpoints)
    while True:
        waiting = [endpoint for endpoint in waiting if not _listens(endpoint)]
        if not waiting:
            return
        sys.stderr.write(f"server not ready, wait {_PAUSE} sec to retry...\n")
        sys.stderr.write(f"not ready endpoints:{waiting}\n")
        sys.stderr.flush()
        time.sleep(_PAUSE)


def _listens(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True
