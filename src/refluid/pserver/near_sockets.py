"""Connections within a host without TCP, by names of Linux's own, which other hosts can't reach.

A name is no file: it is gone with its server. `FLAGS_refluid_near_sockets` says whether servers
listen by one, and whether trainers call them so.
"""

from __future__ import annotations

import logging
import socket
import struct
import sys
import time
from functools import cache

from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.pserver.addresses import host_and_port, is_loopback

_LOGGER = logging.getLogger("refluid")
# Seconds and microseconds of a kernel's limit, of which 0 would be none at all.
_TIME = struct.Struct("@ll")
_LEAST_MICROSECONDS = 1000


def near_name(address: str) -> str | None:
    """What a server at this address is called by processes of its host.

    None where there are no such names, where other hosts reach the address, or
    FLAGS_refluid_near_sockets is off.
    """
    there = sys.platform == "linux" and flags.value("refluid_near_sockets")
    if not there or not is_loopback(address):
        return None
    host, port = host_and_port(address)
    return f"\0refluid server {'127.0.0.1' if host == 'localhost' else host}:{port}"


def near_listener(address: str) -> socket.socket | None:
    """Listens by `near_name`; None where there is none, or the kernel has no such sockets.

    EnforceNotMet where another process has the name: trainers would call that one.
    """
    name = near_name(address)
    if name is None:
        return None
    try:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        _LOGGER.warning("%s is served by TCP alone: %s", address, error)
        return None
    try:
        made.bind(name)
        made.listen(1024)
    except OSError as error:
        made.close()
        raise EnforceNotMet(
            f"a server can't listen at {address}: another process has its name within this host "
            f"({error}). End that one, or set FLAGS_refluid_near_sockets=0 for servers and trainers"
        ) from error
    return made


def near_connection(address: str, until: float) -> socket.socket | None:
    """A connection to the server of this host at an address, made before `until`.

    None where nobody goes by its name. until: of `time.monotonic`. TimeoutError where the server
    takes no connection in time.
    """
    name = near_name(address)
    if name is None:
        return None
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The kernel waits, and wakes at once: without blocking, a full queue is an error instead.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _kernel_time(until))
        made.connect(name)
    except BlockingIOError as error:
        made.close()
        raise TimeoutError(f"{address} takes no connection of this host in time") from error
    except ConnectionRefusedError:
        made.close()
        return None
    except BaseException:
        made.close()
        raise
    return made


def tell_of_detour(address: str) -> None:
    """Says once that a server of this host is called by TCP, where it might be by its name."""
    if near_name(address) is not None:
        _tell_once(address)


@cache
def _tell_once(address: str) -> None:
    _LOGGER.warning(
        "the server at %s doesn't go by its name within this host, and is called by TCP: is "
        "FLAGS_refluid_near_sockets off there?",
        address,
    )


def _kernel_time(until: float) -> bytes:
    whole = max(_LEAST_MICROSECONDS, int(1e6 * (until - time.monotonic())))
    return _TIME.pack(*divmod(whole, 10**6))
