"""`JoinedThread`: a thread that may be joined again after Ctrl-C arrived in a join."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any


class JoinedThread:
    """A daemon thread that runs `target(*arguments)`.

    Python 3.11 takes a thread for ended once a KeyboardInterrupt arrived while it was joined: then
    `Thread.join` returns at once. This one's `join` waits again.
    """

    def __init__(self, target: Callable[..., None], *arguments: Any, name: str) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(target, *arguments), name=name, daemon=True
        )
        self._process = os.getpid()
        self._running = threading.Lock()
        self._running.acquire()

    def start(self) -> None:
        """Starts the thread, once."""
        self._thread.start()

    def join(self) -> None:
        """Waits for the thread's end; not for one never started, nor for one of a fork's parent."""
        if self._thread.ident is None or os.getpid() != self._process:
            return
        with self._running:  # entering a lock can't be interrupted halfway
            pass
        self._thread.join()

    def _run(self, target: Callable[..., None], *arguments: Any) -> None:
        try:
            target(*arguments)
        finally:
            self._running.release()
