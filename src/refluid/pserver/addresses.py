"""Addresses of servers, as `host:port` text has them."""

from __future__ import annotations

from refluid.core.errors import EnforceNotMet

_LOOPBACK = ("127.", "localhost:", "[::1]:")


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of `host:port` or `[host]:port`; EnforceNotMet for other text."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise EnforceNotMet(f"{address!r} is no host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether only processes of this host reach an address."""
    return address.startswith(_LOOPBACK)
