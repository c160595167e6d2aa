"""A `TableServer` behind a port: a thread for each connection."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.pserver.addresses import host_and_port
from refluid.pserver.messages import Kind, TableMessage
from refluid.pserver.near_sockets import near_listener
from refluid.pserver.push_messages import ROWS
from refluid.pserver.refusals import NotNow, OthersAreThere, is_refusal, refused
from refluid.pserver.table_server import TableServer
from refluid.pserver.wire import (
    ConnectionEnded,
    Keys,
    MessageSocket,
    most_bytes,
    require_keys,
)

_LOGGER = logging.getLogger("refluid")
# How long a caller may take to show its certificate, and to take an answer.
_GREETING, _TAKING = 10.0, 60.0


class Service:
    """Listens at `address` (`host:port`, port 0 for any) and answers by a `TableServer`.

    most: how many connections there may be; others are closed. EnforceNotMet where the port is
    taken, or the address needs keys and has none.
    """

    def __init__(
        self, server: TableServer, address: str, most: int = 4096, keys: Keys | None = None
    ) -> None:
        require_keys(address, keys)
        self._server, self._most, self._keys = server, most, keys
        if keys is not None:
            keys.context(server=True)
        _, port = host_and_port(address)
        with ExitStack() as opened:
            # Sooner than the port: whoever can connect there finds the name within the host, too.
            near = near_listener(address) if keys is None and port else None
            if near is not None:
                opened.enter_context(near)
            far = opened.enter_context(_listener(address))
            self.port = int(far.getsockname()[1])
            self.address = f"{address.rpartition(':')[0]}:{self.port}"
            if keys is None and not port:
                near = near_listener(self.address)
            opened.pop_all()
        self._listeners = [far] if near is None else [near, far]
        self._threads: dict[threading.Thread, MessageSocket | None] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._doors = [
            threading.Thread(target=self._accept, args=(one,), name="refluid door", daemon=True)
            for one in self._listeners
        ]

    def start(self) -> None:
        """Begins to answer."""
        for door in self._doors:
            door.start()
        _LOGGER.info("tables are served at %s", self.address)

    def stop(self, grace: float = 1.0) -> None:
        """Answers what is under way for at most `grace` seconds, and nothing new."""
        self._stopped.set()
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for door in self._doors:
            if door.ident is not None:
                door.join(5.0)
        until = time.monotonic() + grace
        for reading in (True, False):
            with self._lock:
                left = dict(self._threads)
            for connection in left.values():
                if connection is not None:
                    connection.close(reading=reading)
            for thread in left:
                thread.join(max(0.0, until - time.monotonic()))

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopped.is_set():
            try:
                given, peer = listener.accept()
            except OSError as error:
                if not self._stopped.is_set():  # as when there are no more descriptors
                    _LOGGER.warning("a connection couldn't be accepted: %s", error)
                    time.sleep(0.1)
                continue
            name = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "a process of this host"
            thread = threading.Thread(target=self._attend, args=(given, name), daemon=True)
            with self._lock:
                full = len(self._threads) >= self._most
                if not full:
                    self._threads[thread] = None
            if full:
                _LOGGER.warning("%s is one connection too many: %d are open", name, self._most)
                given.close()
                continue
            thread.start()

    def _attend(self, given: socket.socket, peer: str) -> None:
        own = threading.current_thread()
        _give_way()
        try:
            with given:
                connection = MessageSocket.accepted(given, self.address, self._keys, _GREETING)
                connection.most = most_bytes(self._server.layout.dense_bytes)
                with self._lock:
                    self._threads[own] = connection
                self._converse(connection, peer)
        except OSError as error:
            if not self._stopped.is_set() and not isinstance(error, ConnectionResetError):
                _LOGGER.warning("the connection of %s ends: %s", peer, error)
        finally:
            with self._lock:
                del self._threads[own]

    def _borrows(self, message: TableMessage, name: str) -> bool:
        """Rows that are applied at once are used where the caller wrote them, who may change them:
        any numbers are as good as others."""
        at_once = message.kind == Kind.PUSH and self._server.applying.at_once
        return at_once and name.startswith(ROWS)

    def _converse(self, connection: MessageSocket, peer: str) -> None:
        try:
            while not self._stopped.is_set():
                answer = self._answer(connection, peer)
                connection.send_packed(answer, time.monotonic() + _TAKING)
                if connection.is_lost:
                    return
        except ConnectionEnded:
            return
        finally:
            connection.close()

    def _answer(self, connection: MessageSocket, peer: str) -> Sequence[Any]:
        """The answer to the next call, packed; an error becomes one that says what it means."""
        try:
            message = connection.receive(None, borrows=self._borrows)
            return self._server.packed_answer(message, connection.pack)
        except OSError:
            raise
        except Exception as error:
            if not is_refusal(error):
                _LOGGER.exception("a call of %s failed", peer)
            elif not isinstance(error, OthersAreThere | NotNow):
                _LOGGER.warning("a call of %s is refused: %s", peer, error)
            return connection.pack(refused(error))


def _listener(address: str) -> socket.socket:
    """Listens by TCP. EnforceNotMet where that can't be."""
    host, port = host_and_port(address)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise EnforceNotMet(f"a server can't listen at {address}: {error}") from error


def _give_way() -> None:
    """Has this thread wait, as a call comes in, until the one that runs on its processor does.

    That is the trainer which sent it, if it is of this host: it has other servers to call.
    """
    if not hasattr(os, "SCHED_BATCH"):
        return
    with suppress(OSError):  # where processes may not choose
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
