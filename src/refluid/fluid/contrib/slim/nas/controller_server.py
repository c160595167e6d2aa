"""`ControllerServer`: one controller for the agents of several processes."""

from __future__ import annotations

import socket
import socketserver
import threading
from typing import Any

from refluid.fluid.contrib.slim.nas import wire

__all__ = ["ControllerServer"]


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True


class ControllerServer:
    """Serves a controller from a thread of its own.

    address: where it listens; port 0 for any that is free. max_client_num: connections that wait.
    search_steps: after so many updates only the best tokens are given; None for any number. key:
    agents with another word are refused.
    """

    def __init__(
        self,
        controller: Any = None,
        address: tuple[str, int] = ("", 0),
        max_client_num: int = 100,
        search_steps: int | None = None,
        key: str | None = None,
    ) -> None:
        self._controller, self._steps, self._key = controller, search_steps, key
        self._updates, self._lock = 0, threading.Lock()
        self._address, self._waiting = address, max_client_num
        self._server: _Server | None = None

    def start(self) -> Any:
        """Begins to serve; the thread."""
        owner = self

        class Conversation(socketserver.StreamRequestHandler):
            timeout = 60

            def handle(self) -> None:
                try:
                    message = wire.receive(self.rfile)
                    answer = owner._answer(message or {})
                except (OSError, ValueError, KeyError, TypeError) as error:
                    answer = {"error": str(error)}
                wire.send(self.wfile, answer)

        _Server.request_queue_size = self._waiting
        self._server = _Server(self._address, Conversation)
        thread = threading.Thread(target=self.run, name="refluid search server", daemon=True)
        thread.start()
        return thread

    def run(self) -> None:
        """Serves until `close`."""
        assert self._server is not None, "start() first"
        self._server.serve_forever(0.1)

    def close(self) -> None:
        """Ends the server."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def port(self) -> int:
        """The port it listens at."""
        assert self._server is not None, "start() first"
        return int(self._server.server_address[1])

    def ip(self) -> str:
        """The address of this machine for others."""
        return socket.gethostbyname(socket.gethostname())

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        if message.get("key") != self._key:
            raise ValueError("another search's key")
        with self._lock:
            if message.get("do") == "update":
                self._controller.update(list(message["tokens"]), float(message["reward"]))
                self._updates += 1
            if self._steps is not None and self._updates >= self._steps:
                return {"tokens": self._controller.best_tokens}
            return {"tokens": self._controller.next_tokens()}
