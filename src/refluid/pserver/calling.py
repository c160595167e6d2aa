"""Calls of servers: all at once, each with a deadline, tried again until patience ends."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc

from refluid.core.errors import EnforceNotMet
from refluid.pserver.messages import TableMessage, decode, encode
from refluid.pserver.wire import METHOD, OPTIONS, Keys, require_keys

_LOGGER = logging.getLogger("refluid")
_TRANSIENT = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
)
_RECONNECT = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


class ServerUnreachable(EnforceNotMet):
    """A server that doesn't answer; the text names it, and says for how long it was asked."""


class Servers:
    """Connections to all servers of a job.

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
        self._enter = enter
        options = [*OPTIONS, *_RECONNECT]
        self._channels = []
        for address in addresses:
            require_keys(address, keys)
            self._channels.append(
                grpc.insecure_channel(address, options)
                if keys is None
                else grpc.secure_channel(address, keys.of_client(), options)
            )
        self._calls = [channel.unary_unary(METHOD) for channel in self._channels]

    def ask(
        self, messages: Mapping[int, TableMessage], patience: float | None = None
    ) -> dict[int, TableMessage]:
        """The answers of servers, by number, all asked at once.

        Raises ServerUnreachable where one doesn't answer in time, EnforceNotMet where one refuses.
        """
        patience = self.patience if patience is None else patience
        left = {server: encode(message) for server, message in messages.items()}
        answers: dict[int, TableMessage] = {}
        start, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            waits = max(0.05, min(self.one_try, start + patience - time.monotonic()))
            under_way = {
                server: self._calls[server].future(raw, timeout=waits, wait_for_ready=True)
                for server, raw in left.items()
            }
            failed: dict[int, Any] = {}
            for server, future in under_way.items():
                try:
                    answers[server] = decode(future.result())
                    del left[server]
                except grpc.RpcError as error:
                    failed[server] = error
            if not left:
                return answers
            for server, reason in failed.items():
                self._judge(server, reason, time.monotonic() - start, patience)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _judge(self, server: int, error: Any, seconds: float, patience: float) -> None:
        """Raises unless a failed call is to be made again."""
        address, code = self.addresses[server], error.code()
        if code == grpc.StatusCode.NOT_FOUND and self._enter is not None:
            self._enter(server)
        elif code not in _TRANSIENT:
            raise EnforceNotMet(f"server {address} refuses: {error.details()}") from error
        if seconds > patience:
            raise ServerUnreachable(
                f"server {address} didn't answer for {seconds:.0f} s ({error.details()}). Is it "
                "running, and does it answer at that address? FLAGS_rpc_deadline says for how "
                "many milliseconds trainers ask"
            ) from error

    def close(self) -> None:
        """Ends the connections."""
        for channel in self._channels:
            channel.close()
