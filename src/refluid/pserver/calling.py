"""Calls of servers: all at once, each with a deadline, tried again until patience ends."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from refluid.core.errors import EnforceNotMet
from refluid.pserver.messages import Kind, MalformedMessage, Remedy, TableMessage
from refluid.pserver.wire import Keys, MessageSocket, host_and_port, require_keys

_LOGGER = logging.getLogger("refluid")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
# A try goes on at least so long for each server, though another one took all its time.
_LEAST = 0.05


class ServerUnreachable(EnforceNotMet):
    """A server that doesn't answer; the text names it, and says for how long it was asked."""


class Servers:
    """Connections to all servers of a job. For several threads.

    patience: for how many seconds a call is tried again. one_try: after how many seconds a try
    that isn't answered is given up. enter: called with a server's number when it doesn't know this
    trainer; the call is then made again.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        patience: float = 180.0,
        one_try: float = 30.0,
        keys: Keys | None = None,
        enter: Callable[[int], None] | None = None,
    ) -> None:
        self.addresses, self.patience, self.one_try = tuple(addresses), patience, one_try
        self._enter, self._keys = enter, keys
        for address in addresses:
            require_keys(address, keys)
            host_and_port(address)
        # Connections that nobody uses at the moment, by server.
        self._idle: list[list[MessageSocket]] = [[] for _ in addresses]
        self._lock = threading.Lock()
        self._closed = False

    def ask(
        self, messages: Mapping[int, TableMessage], patience: float | None = None
    ) -> dict[int, TableMessage]:
        """The answers of servers, by number, all asked at once.

        Raises ServerUnreachable where one doesn't answer in time, EnforceNotMet where one refuses.
        """
        patience = self.patience if patience is None else patience
        left, answers = dict(messages), dict[int, TableMessage]()
        start, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            waits = min(self.one_try, start + patience - time.monotonic())
            failed = self._try(left, answers, waits)
            if not left:
                return answers
            for server, reason in failed.items():
                self._judge(server, reason, time.monotonic() - start, patience)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _try(
        self,
        left: dict[int, TableMessage],
        answers: dict[int, TableMessage],
        seconds: float,
    ) -> dict[int, Exception | TableMessage]:
        """Moves answers from `left` to `answers`; what else each server said, or didn't."""
        end = time.monotonic() + seconds
        failed: dict[int, Exception | TableMessage] = {}
        under_way: dict[int, MessageSocket] = {}
        for server, message in left.items():
            until = max(end, time.monotonic() + _LEAST)
            try:
                under_way[server] = self._sent(server, message, until)
            except OSError as error:
                failed[server] = error
        for server, connection in under_way.items():
            try:
                answer = connection.receive(max(end, time.monotonic() + _LEAST))
            except (OSError, MalformedMessage) as error:
                connection.close()
                failed[server] = error
                continue
            self._put_back(server, connection)
            if answer.kind == Kind.REFUSAL:
                failed[server] = answer
            else:
                answers[server] = answer
                del left[server]
        return failed

    def _sent(self, server: int, message: TableMessage, until: float) -> MessageSocket:
        """A connection by which a message left."""
        with self._lock:
            if self._closed:
                raise EnforceNotMet("the connections to the servers are closed")
            idle = self._idle[server]
            connection = idle.pop() if idle else None
        if connection is None:
            connection = MessageSocket.to(self.addresses[server], self._keys, until)
        try:
            connection.send(message, until)
        except BaseException:
            connection.close()
            raise
        return connection

    def _put_back(self, server: int, connection: MessageSocket) -> None:
        with self._lock:
            if not self._closed:
                self._idle[server].append(connection)
                return
        connection.close()

    def _judge(
        self, server: int, failure: Exception | TableMessage, seconds: float, patience: float
    ) -> None:
        """Raises unless a failed call is to be made again."""
        address, cause, text = self.addresses[server], None, str(failure)
        if isinstance(failure, TableMessage):
            told = failure.values()
            meaning, text = told.get("meaning"), str(told.get("text"))
            if meaning == Remedy.ENTER and self._enter is not None:
                self._enter(server)
            elif meaning != Remedy.AGAIN:
                raise EnforceNotMet(f"server {address} refuses: {text}")
        else:
            cause = failure
        if seconds > patience:
            raise ServerUnreachable(
                f"server {address} didn't answer for {seconds:.0f} s ({text}). Is it running, and "
                "does it answer at that address? FLAGS_rpc_deadline says for how many "
                "milliseconds trainers ask"
            ) from cause

    def close(self) -> None:
        """Ends the connections."""
        with self._lock:
            self._closed = True
            idle = [one for part in self._idle for one in part]
            for part in self._idle:
                part.clear()
        for connection in idle:
            connection.close()
