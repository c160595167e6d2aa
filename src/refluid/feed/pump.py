"""`Pump`: a thread that moves what an iterable gives into a queue."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from refluid.core.events import EventKind, record
from refluid.core.whole_threads import begin
from refluid.feed.errors import failed
from refluid.feed.queue import BlockingQueue
from refluid.feed.statistics import ReaderStatistics
from refluid.feed.switching import short_turns

_LOGGER = logging.getLogger("refluid")
_PATIENCE = 5.0
_END = object()

Make = Callable[[], Iterable[Any]]


class Pump:
    """Fills `queue` from `make()` in a thread, until the data end, fail, or nobody wants them.

    What the data's source raises is raised by the queue's `pop`, after the items before it.
    The iterator is closed in the thread that ran it.
    """

    def __init__(
        self, make: Make, queue: BlockingQueue, statistics: ReaderStatistics, name: str
    ) -> None:
        self._queue = queue
        self._name = name
        self._thread = threading.Thread(
            target=_run_in_turns,
            args=(make, queue, queue.reopen(), statistics, name),
            name=f"refluid reader {name}",
            daemon=True,
        )
        begin(self._thread)

    def stop(self, timeout: float | None = None) -> None:
        """Ends the pass and waits until the source has let go.

        timeout: the most seconds to wait; the thread ends by itself later.
        """
        self._queue.kill()
        if self._thread is threading.current_thread():
            return
        self._thread.join(_PATIENCE if timeout is None else timeout)
        if timeout is None and self._thread.is_alive():
            _LOGGER.warning(
                "reader %r: waiting for its generator to give the next item, so that it can be "
                "stopped",
                self._name,
            )
            self._thread.join()


def _run_in_turns(make: Make, *arguments: Any) -> None:
    with short_turns():
        _run(make, *arguments)


def _run(
    make: Make,
    queue: BlockingQueue,
    ticket: int,
    statistics: ReaderStatistics,
    name: str,
) -> None:
    items: Iterator[Any] = iter(())
    try:
        items = iter(make())
        while True:
            start = time.perf_counter()
            with record(f"reader {name}", EventKind.READER):
                item = next(items, _END)
            made = time.perf_counter()
            if item is _END:
                break
            if not queue.push(item, ticket):
                return
            statistics.note_made(made - start, time.perf_counter() - made)
            del item
        queue.close(ticket)
    except BaseException as error:
        reason = error
        queue.fail(lambda: failed(name, reason), ticket)
    finally:
        _close(items, name)


def _close(items: Iterator[Any], name: str) -> None:
    close = getattr(items, "close", None)
    if close is None:
        return
    try:
        close()
    except BaseException as error:
        _LOGGER.warning("reader %r: closing its generator raised %r", name, error)
