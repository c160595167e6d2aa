"""Calls of servers: all at once, each with a deadline, tried again until patience ends."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from refluid.core.errors import EnforceNotMet
from refluid.pserver.addresses import host_and_port
from refluid.pserver.layout import JobLayout, layout_of
from refluid.pserver.messages import Kind, MalformedMessage, Remedy, TableMessage
from refluid.pserver.near_memory import own_core
from refluid.pserver.waiting import as_they_come
from refluid.pserver.wire import Keys, MessageSocket, require_keys

_LOGGER = logging.getLogger("refluid")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
# A try goes on at least so long for each server, though another one took all its time.
_LEAST = 0.05


Take = Callable[[int, TableMessage], None]


class ServerUnreachable(EnforceNotMet):
    """A server that doesn't answer; the text names it, and says for how long it was asked."""


class LayoutChanged(Exception):
    """Servers came or went, so the call must be made anew. layout: what is where now."""

    def __init__(self, layout: JobLayout) -> None:
        super().__init__(f"servers came or went {layout.epoch} times")
        self.layout = layout


class ServerGone(EnforceNotMet):
    """A number that no server has any more: servers went, and the call was dealt before."""


class Servers:
    """Connections to all servers of a job, by their numbers; some may lack. For several threads.

    patience: for how many seconds a call is tried again. one_try: after how many seconds a try
    that isn't answered is given up. enter: called with a server's number when it doesn't know this
    trainer; the call is then made again. silent: called with the number of one that doesn't answer,
    every now and then. most: the size of the largest answer, MOST_BYTES unless given.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        patience: float = 180.0,
        one_try: float = 30.0,
        keys: Keys | None = None,
        enter: Callable[[int], None] | None = None,
        silent: Callable[[int], None] | None = None,
        most: int = 0,
    ) -> None:
        self.addresses: tuple[str, ...] = ()
        self.patience, self.one_try = patience, one_try
        self._enter, self._silent, self._keys, self._most = enter, silent, keys, most
        # Connections that nobody uses at the moment, by address.
        self._idle: dict[str, list[MessageSocket]] = {}
        self._lock = threading.Lock()
        # From which core each server answered the last call, and how many had done so before.
        self._answered: dict[int, tuple[int, int]] = {}
        self._closed = False
        self.move(addresses)

    def move(self, addresses: Sequence[str]) -> None:
        """Servers are at these addresses from now on."""
        for address in filter(None, addresses):
            require_keys(address, self._keys)
            host_and_port(address)
        with self._lock:
            gone = self._idle.keys() - set(addresses)
            idle = [one for address in gone for one in self._idle.pop(address)]
            self.addresses = tuple(addresses)
        for connection in idle:
            connection.close()

    def ask(
        self,
        messages: Mapping[int, TableMessage],
        patience: float | None = None,
        take: Take | None = None,
    ) -> dict[int, TableMessage]:
        """The answers of servers, by number, all asked at once.

        take: called with each answer's number and the answer, whose arrays are gone afterwards.
        Raises ServerUnreachable where one doesn't answer in time, EnforceNotMet where one refuses,
        LayoutChanged where servers came or went, ServerGone where another thread knew so before.
        """
        patience = self.patience if patience is None else patience
        left, answers = dict(messages), dict[int, TableMessage]()
        start, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            waits = min(self.one_try, start + patience - time.monotonic())
            failed = self._try(left, answers, waits, take)
            if not left:
                return answers
            for server, reason in sorted(failed.items(), key=_settles):
                self._judge(server, reason, time.monotonic() - start, patience)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _try(
        self,
        left: dict[int, TableMessage],
        answers: dict[int, TableMessage],
        seconds: float,
        take: Take | None,
    ) -> dict[int, Exception | TableMessage]:
        """Moves answers from `left` to `answers`; what else each server said, or didn't."""
        addresses = self.addresses
        for server in left:
            if not addresses[server]:
                raise ServerGone(f"server {server} isn't one of the job's any more")
        end = time.monotonic() + seconds
        failed: dict[int, Exception | TableMessage] = {}
        under_way: dict[int, tuple[str, MessageSocket]] = {}
        for server, message in self._in_order(left):
            until, address = max(end, time.monotonic() + _LEAST), addresses[server]
            try:
                under_way[server] = address, self._sent(address, message, until)
            except OSError as error:
                failed[server] = error
        sockets = {server: connection for server, (_, connection) in under_way.items()}
        borrows = None if take is None else _all
        for server in as_they_come(sockets, end):
            address, connection = under_way[server]
            try:
                until = max(end, time.monotonic() + _LEAST)
                answer = connection.receive(until, borrows=borrows)
                if answer.kind == Kind.REFUSAL:
                    failed[server] = answer.kept()
                else:
                    if take is not None:
                        take(server, answer)
                    self._answered[server] = connection.core, len(answers)
                    answers[server] = answer
                    del left[server]
            except (OSError, MalformedMessage) as error:
                connection.close()
                failed[server] = error
                continue
            self._put_back(address, connection)
        return failed

    def _in_order(self, asked: Mapping[int, TableMessage]) -> list[tuple[int, TableMessage]]:
        """Whom to call first: those whose answers come last, which need not wait for this core."""
        here = own_core()

        def late(one: tuple[int, TableMessage]) -> tuple[bool, int]:
            core, place = self._answered.get(one[0], (-1, 0))
            return core != here, place

        return sorted(asked.items(), key=late, reverse=True)

    def _sent(self, address: str, message: TableMessage, until: float) -> MessageSocket:
        """A connection by which a message left."""
        with self._lock:
            if self._closed:
                raise EnforceNotMet("the connections to the servers are closed")
            idle = self._idle.get(address)
            connection = idle.pop() if idle else None
        if connection is None:
            connection = MessageSocket.to(address, self._keys, until)
            connection.most = self._most
        try:
            connection.send(message, until)
        except BaseException:
            connection.close()
            raise
        return connection

    def _put_back(self, address: str, connection: MessageSocket) -> None:
        with self._lock:
            if not self._closed and address in self.addresses:
                self._idle.setdefault(address, []).append(connection)
                return
        connection.close()

    def _judge(
        self, server: int, failure: Exception | TableMessage, seconds: float, patience: float
    ) -> None:
        """Raises unless a failed call is to be made again."""
        cause: Exception | None = None
        address, text = self.addresses[server], str(failure)
        if isinstance(failure, TableMessage):
            told = failure.values()
            meaning, text = told.get("meaning"), str(told.get("text"))
            if meaning == Remedy.ENTER and self._enter is not None:
                self._enter(server)
            elif meaning == Remedy.LAYOUT:
                raise LayoutChanged(layout_of(told["layout"]))
            elif meaning != Remedy.AGAIN:
                raise EnforceNotMet(f"server {address} refuses: {text}")
        else:
            cause = failure
            if self._silent is not None:
                self._silent(server)
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
            idle = [one for part in self._idle.values() for one in part]
            self._idle.clear()
        for connection in idle:
            connection.close()


def _all(_message: TableMessage, _name: str) -> bool:
    return True


def _settles(failed: tuple[int, Exception | TableMessage]) -> bool:
    """Sorts answers before silence: one may say that the silent server is gone for good."""
    return not isinstance(failed[1], TableMessage)
