"""What both ends of a call have in common: messages on a socket, their limits, its keys.

A message says its own length, and the answer follows on the same connection: no thread and no
copy stands between an array and the socket. Of calls within a host the heads alone go through the
socket, and the rest through memory that both ends have (`near_memory`).
"""

from __future__ import annotations

import socket
import ssl
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from refluid.core.errors import EnforceNotMet
from refluid.core.flags import environment_str
from refluid.pserver.addresses import host_and_port, is_loopback
from refluid.pserver.messages import MalformedMessage, TableMessage
from refluid.pserver.near_memory import NearMemory, greet, greeted
from refluid.pserver.near_sockets import near_connection, tell_of_detour
from refluid.pserver.packing import HEAD_BYTES, MAGIC, MessageBytes, head_of, put_together
from refluid.pserver.waiting import seconds_left, until_readable

# Whether an array of a message may be used where the other end wrote it, by its name.
Borrows = Callable[[TableMessage, str], bool]
# A message begins so of which all but the head lies in memory of both ends.
NEAR = b"RFPM"
# One message; larger ones are refused on both ends, but where a job's parameters take more.
MOST_BYTES = 2**30
# A server's answer may have parameters, and so many times as much that optimizers keep for them.
_KEPT = 4
# Buffers of connections within a host, where the kernel's own are too small for one part of a step.
_BUFFER = 2**20
# The kernel takes no more buffers at once.
_MOST_PIECES = 512
# After so many silent seconds of a connection the kernel asks whether the other host lives.
_SILENT = 60


def most_bytes(dense: int) -> int:
    """The size of the largest message of a job whose dense parameters take so many bytes."""
    return MOST_BYTES + (1 + _KEPT) * dense


class ConnectionEnded(ConnectionError):
    """The other end closed the connection between two messages."""


@dataclass(frozen=True)
class Keys:
    """PEM files of mutual TLS: this end's key and chain, and who signs the others'."""

    key: Path
    chain: Path
    authority: Path

    def context(self, *, server: bool) -> ssl.SSLContext:
        """For one end of connections; a server accepts nobody without a certificate.

        EnforceNotMet where a file is no key or certificate.
        """
        return _context(self, server)


@cache
def _context(keys: Keys, server: bool) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.verify_mode = ssl.CERT_REQUIRED
    try:
        made.load_cert_chain(keys.chain, keys.key)
        made.load_verify_locations(keys.authority)
    except (OSError, ssl.SSLError) as error:
        raise EnforceNotMet(
            f"{keys.key}, {keys.chain} or {keys.authority} is no key or certificate: {error}"
        ) from error
    return made


def keys_of_environment() -> Keys | None:
    """Those in REFLUID_TLS_KEY, REFLUID_TLS_CERTIFICATE and REFLUID_TLS_AUTHORITY, names of files.

    None where none is set; EnforceNotMet where some are, or a file isn't there.
    """
    names = [f"REFLUID_TLS_{one}" for one in ("KEY", "CERTIFICATE", "AUTHORITY")]
    paths = [environment_str(name) for name in names]
    if not any(paths):
        return None
    for name, path in zip(names, paths, strict=True):
        if path is None:
            raise EnforceNotMet(f"mutual TLS needs {', '.join(names)}: {name} is not set")
        if not Path(path).is_file():
            raise EnforceNotMet(f"{name}={path}: there is no such file")
    return Keys(*(Path(path) for path in paths if path))


def require_keys(address: str, keys: Keys | None) -> None:
    """EnforceNotMet where an address that other hosts reach is to be used without TLS."""
    if keys is None and not is_loopback(address):
        if environment_str("REFLUID_PLAIN_NETWORK") == "1":
            return
        raise EnforceNotMet(
            f"servers at {address} can be reached from other hosts, so they need mutual TLS: set "
            "REFLUID_TLS_KEY, REFLUID_TLS_CERTIFICATE and REFLUID_TLS_AUTHORITY, or "
            "REFLUID_PLAIN_NETWORK=1 where nobody else is on the network"
        )


class MessageSocket:
    """One end of a connection between two processes, used by one thread at a time.

    memory: of both ends. greets: False where the other end says first whether there is any.
    """

    def __init__(
        self, connected: socket.socket, memory: NearMemory | None = None, *, greets: bool = True
    ) -> None:
        self._socket: Any = connected
        self._gathers = not isinstance(connected, ssl.SSLSocket)
        self._memory, self._is_greeted = memory, greets
        # Whether the other end is known to take messages from memory.
        self._shares = False
        weakref.finalize(self, connected.close)  # where whoever held it forgot to

    @classmethod
    def to(cls, address: str, keys: Keys | None, until: float) -> MessageSocket:
        """Connects before `until`, of `time.monotonic`. OSError where nobody answers in time."""
        host, port = host_and_port(address)
        if keys is None and (near := cls._near(address, until)) is not None:
            return near
        far = socket.create_connection((host, port), seconds_left(until))
        try:
            if keys is None:
                # A server has its name first: one that has just begun has it by now.
                if (near := cls._near(address, until)) is not None:
                    far.close()
                    return near
                tell_of_detour(address)
            _tune(far, address)
            if keys is not None:
                far = keys.context(server=False).wrap_socket(far, server_hostname=host)
        except BaseException:
            far.close()
            raise
        return cls(far)

    @classmethod
    def _near(cls, address: str, until: float) -> MessageSocket | None:
        """Connects within this host; None where nobody is called so."""
        near = near_connection(address, until)
        if near is None:
            return None
        _tune(near, address)
        return cls(near, greets=False)

    @classmethod
    def accepted(
        cls, given: socket.socket, address: str, keys: Keys | None, seconds: float
    ) -> MessageSocket:
        """The server's end of one that came in. OSError where it has no certificate in time."""
        _tune(given, address)
        given.settimeout(seconds)
        if keys is not None:
            given = keys.context(server=True).wrap_socket(given, server_side=True)
        return cls(given, greet(given) if _is_near(given) else None)

    def send(self, message: TableMessage, until: float) -> None:
        """Sends a message. OSError where that can't be done in time."""
        self.send_packed(self.pack(message), until)

    def pack(self, message: TableMessage) -> Sequence[Any]:
        """The next message as it is sent; what is made where it is sent from was made then."""
        packed = MessageBytes(message)
        return self._in_memory(packed) if self._shares else packed.buffers()

    def send_packed(self, buffers: Sequence[Any], until: float) -> None:
        """Sends what `pack` gave. OSError where that can't be done in time."""
        if not self._gathers:
            self._socket.settimeout(seconds_left(until))
            self._socket.sendall(b"".join(buffers))
            return
        for start in range(0, len(buffers), _MOST_PIECES):
            self._send_all(buffers[start : start + _MOST_PIECES], until)

    def receive(self, until: float | None, *, borrows: Borrows | None = None) -> TableMessage:
        """The next message, whose beginning is waited for without end where `until` is None.

        OSError where there is none in time, ConnectionEnded where none will come. MalformedMessage
        for what is none; nothing can follow it when `is_lost` says so. borrows: which of its arrays
        may lie in memory that the other end writes anew for the next one, and whenever it likes.
        """
        raw = bytearray(HEAD_BYTES)
        if not self._is_greeted:
            self._socket.settimeout(None if until is None else seconds_left(until))
            self._memory, self._is_greeted = greeted(self._socket), True
            self._shares = self._memory is not None
        if until is None and _is_near(self._socket):
            until_readable(self.fileno)  # in `recv` it would wake as the answer is read, too
        self._fill(memoryview(raw), until, begins=True)
        self.is_lost = True
        memory = self._memory if raw.startswith(NEAR) else None
        if memory is not None:
            raw[: len(MAGIC)], self._shares = MAGIC, True
        head = head_of(raw)
        most = self.most or MOST_BYTES
        if not HEAD_BYTES <= head.size <= most:
            raise MalformedMessage(f"a message of {head.size} bytes, of at most {most}")
        size = head.size - HEAD_BYTES
        if memory is not None:
            body = memory.read(size, copied=borrows is None)
        else:
            body = np.empty(size, np.uint8)
            self._fill(body.data, until or time.monotonic() + _SILENT, begins=False)
        self.is_lost = False
        found = put_together(head, body.data)
        return found if memory is None or borrows is None else found.kept(borrows)

    is_lost = False
    # The size of the largest message that it takes; MOST_BYTES unless set.
    most = 0

    @property
    def core(self) -> int:
        """The core from which the other end sent, if it is of this host and says so; or -1."""
        return -1 if self._memory is None else self._memory.core

    @property
    def fileno(self) -> int:
        """The number of its socket."""
        return int(self._socket.fileno())

    def close(self, *, reading: bool = False) -> None:
        """Ends the connection; of `reading`, only what comes in, so that an answer still leaves."""
        with suppress(OSError):  # the other end may be sooner
            # Not TLS's own, after which what is still sent would be plain.
            socket.socket.shutdown(self._socket, socket.SHUT_RD if reading else socket.SHUT_RDWR)
        if not reading:
            self._socket.close()

    def _in_memory(self, packed: MessageBytes) -> Sequence[Any]:
        """What is left for the socket once all but the head was written to memory, if it fits."""
        assert self._memory is not None
        room = self._memory.room(packed.size)
        if room is None:
            return packed.buffers()
        packed.write(room)
        self._memory.tell_core()
        return (NEAR + packed.head[len(MAGIC) :],)

    def _send_all(self, buffers: Sequence[Any], until: float) -> None:
        left = list(buffers)
        while left:
            self._socket.settimeout(seconds_left(until))
            sent = self._socket.sendmsg(left)
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = memoryview(left[0])[sent:]

    def _fill(self, target: memoryview, until: float | None, *, begins: bool) -> None:
        got, size = 0, len(target)
        while got < size:
            if until is None and got:
                until = time.monotonic() + _SILENT
            self._socket.settimeout(None if until is None else seconds_left(until))
            count = self._socket.recv_into(target[got:])
            if not count:
                if begins and not got:
                    raise ConnectionEnded("the connection was closed")
                raise ConnectionError("the connection was closed within a message")
            got += count


def _is_near(connected: socket.socket) -> bool:
    return connected.family == getattr(socket, "AF_UNIX", None)


def _tune(connected: socket.socket, address: str) -> None:
    """Sends at once, and notices hosts that are gone."""
    if _is_near(connected):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        return
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT)
    if is_loopback(address):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
