"""`Crew`: several worker processes, listened to at once."""

from __future__ import annotations

import contextlib
import functools
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence

from refluid.core.errors import EnforceNotMet
from refluid.core.whole_threads import interrupts_later
from refluid.feed.closing import Closeable, close_at_exit, when_gone
from refluid.feed.workers.channel import Disconnected, Message, MessageKind
from refluid.feed.workers.process import Worker, WorkerFunction, rebuild

_LOOK_AROUND = 1.0


class Cancelled(Exception):
    """Nobody wants the crew's work any more."""


class Crew:
    """Worker processes, one per function of `works`.

    title: what messages call the reader. lend: how many messages' memory each worker may have
    out at a time. Must be closed; the interpreter's end closes it too.
    """

    def __init__(self, title: str, works: Sequence[WorkerFunction], lend: int) -> None:
        self._title = title
        self._selector = selectors.DefaultSelector()
        self._ready: deque[Worker] = deque()
        self._closing = threading.Lock()
        self._wake, woken = socket.socketpair()
        self._selector.register(woken, selectors.EVENT_READ)
        self._rest = self._selector, self._wake, woken
        self.workers: list[Worker] = []
        self._working: set[Worker] = set()
        close_at_exit(self)
        # An interrupt may come before anybody could close it.
        when_gone(self, functools.partial(_end, self.workers, self._closing, self._rest))
        try:
            with interrupts_later():
                for number, work in enumerate(works):
                    worker = Worker(work, title, number, len(works), lend)
                    self.workers.append(worker)
                    self._working.add(worker)
                    self._selector.register(worker.end, selectors.EVENT_READ, worker)
        except BaseException:
            self.close()
            raise

    @property
    def working(self) -> int:
        """How many workers have more to send."""
        return len(self._working)

    def receive(self, timeout: float | None = None) -> tuple[Worker, Message]:
        """The next message of any worker.

        Raises what a worker raised, WorkerDied where one died, EnforceNotMet after `timeout`
        seconds without a message, Cancelled after `cancel`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._ready:
            self._wait(deadline, timeout)
        worker = self._ready.popleft()
        try:
            message = worker.end.receive()
        except Disconnected:
            raise worker.died() from None
        if message.kind == MessageKind.ERROR:
            raise rebuild(message.value)
        if message.kind == MessageKind.END:
            self._selector.unregister(worker.end)
            self._working.discard(worker)
        return worker, message

    def _wait(self, deadline: float | None, timeout: float | None) -> None:
        for key, _ in self._selector.select(_LOOK_AROUND):
            if key.data is None:
                raise Cancelled
            self._ready.append(key.data)
        if self._ready:
            return
        for worker in self._working:
            if not worker.process.is_alive() and not self._selector.select(0):
                raise worker.died()
        if deadline is not None and time.monotonic() > deadline:
            names = ", ".join(sorted(worker.label for worker in self._working))
            raise EnforceNotMet(
                f"no batch came within {timeout} seconds from {names}; give the reader a longer "
                "timeout, or look for what its dataset waits for"
            )

    def cancel(self) -> None:
        """Wakes `receive`, which raises Cancelled. From any thread."""
        with contextlib.suppress(OSError):
            self._wake.send(b".")

    def close(self) -> None:
        """Ends all workers and waits for them."""
        _end(self.workers, self._closing, self._rest)
        self._working.clear()


def _end(workers: list[Worker], closing: threading.Lock, rest: Sequence[Closeable]) -> None:
    with closing:
        for worker in workers:
            worker.hang_up()
        for worker in workers:
            worker.close()
        workers.clear()
        for one in rest:
            one.close()
