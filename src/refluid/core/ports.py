"""Ports of this host at which a process that is started later can listen."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

from refluid.core.errors import EnforceNotMet

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST, _HIGHEST = 10_000, 65_535
# Fewer candidates than these, and two that look at once would choose the same too often.
_ENOUGH = 1_000
_TRIES = 200


def free_port(count: int = 1, host: str = "") -> int:
    """The first of so many neighbouring ports at which nobody listens at `host` (any address).

    They are chosen at random, outside of those that the system gives to outgoing connections: what
    connects somewhere meanwhile can't take one before its owner listens. EnforceNotMet without any.
    """
    candidates = _beginnings(count)
    for _ in range(_TRIES if candidates else 0):
        begin = secrets.choice(candidates)
        if all(_is_free(host, begin + one) for one in range(count)):
            return begin
    raise EnforceNotMet(f"this host has no {count} neighbouring ports that are free")


def free_endpoints(count: int, host: str = "127.0.0.1") -> list[str]:
    """So many `host:port` at which nobody listens, of neighbouring ports."""
    begin = free_port(count, host)
    return [f"{host}:{begin + one}" for one in range(count)]


def _beginnings(count: int) -> list[int]:
    """Ports with which so many neighbours begin that may be chosen."""
    try:
        low, high = (int(one) for one in _EPHEMERAL.read_text().split())
    except (OSError, ValueError):  # not Linux: IANA's range
        low, high = 49_152, _HIGHEST
    every = range(_LOWEST, _HIGHEST + 1)
    apart = {port for port in every if not low <= port <= high}
    chosen = apart if len(apart) >= _ENOUGH else {*every}
    return [begin for begin in every if {begin, begin + count - 1} <= chosen]


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
