"""Threads that read at the same time and put what they have into one bounded queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from refluid.core.errors import EOFException
from refluid.core.whole_threads import JoinedThread
from refluid.feed.closing import close_at_exit
from refluid.feed.queue import BlockingQueue
from refluid.feed.statistics import ReaderStatistics

Make = Callable[[], Generator[Any, None, None]]
_END = object()


class Producers:
    """One thread per generator of `makes`, from `start` on; `take` gives what any of them made.

    cancel: wakes generators that wait for something else than the queue. consumers: how many
    threads take; each has its own statistics. Anything that a generator raises ends all of them,
    and is raised by `take` after what was made before. Always `stop`, also where `start` was
    interrupted: nothing runs before it, as an interrupt at the end of a constructor loses what was
    made.
    """

    def __init__(
        self,
        makes: Sequence[Make],
        capacity: int,
        cancel: Callable[[], None],
        name: str,
        consumers: int = 1,
    ) -> None:
        self._queue = BlockingQueue(capacity)
        self._cancel = cancel
        self._lock = threading.Lock()
        self._running = len(makes)
        self.statistics = [
            ReaderStatistics(name if consumers == 1 else f"{name}, thread {number}", capacity)
            for number in range(consumers)
        ]
        ticket = self._ticket = self._queue.reopen()
        self._threads = [
            JoinedThread(
                self._run,
                make,
                ticket,
                self.statistics[number % consumers],
                name=f"refluid {name} {number}",
            )
            for number, make in enumerate(makes)
        ]
        close_at_exit(self)

    def start(self) -> None:
        """Starts all threads, once."""
        for thread in self._threads:
            thread.start()

    def take(self, consumer: int = 0) -> Any:
        """The next item, waiting for one. Raises EOFException after the last."""
        depth, start = self._queue.size(), time.perf_counter()
        item = self._queue.pop(self._ticket, repeating=False)
        self.statistics[consumer].note_taken(time.perf_counter() - start, depth)
        return item

    def peek(self) -> Any:
        """What is probably taken next, as far as it was made; None else."""
        return self._queue.peek(self._ticket)

    def interrupt(self) -> None:
        """Tells all threads to end, and whoever takes; what was made and not taken is lost."""
        self._queue.kill()
        self._cancel()

    def stop(self) -> None:
        """As `interrupt`, and waits until the threads are gone."""
        self.interrupt()
        for thread in self._threads:
            thread.join()

    close = stop

    def _run(self, make: Make, ticket: int, statistics: ReaderStatistics) -> None:
        items = make()
        try:
            while True:
                start = time.perf_counter()
                item = next(items, _END)
                made = time.perf_counter()
                if item is _END:
                    break
                if not self._queue.push(item, ticket):
                    return
                statistics.note_made(made - start, time.perf_counter() - made)
            with self._lock:
                self._running -= 1
                last = not self._running
            if last:
                self._queue.close(ticket)
        except BaseException as error:
            reason = error
            self._queue.fail(lambda: reason, ticket)
            self._cancel()
        finally:
            items.close()


def gather(makes: Sequence[Make], cancel: Callable[[], None], name: str) -> list[Any]:
    """All that the generators make, each run by a thread. Raises what one of them raises."""
    producers = Producers(makes, 2 * len(makes), cancel, name)
    found: list[Any] = []
    try:
        producers.start()
        while True:
            found.append(producers.take())
    except EOFException:
        return found
    finally:
        producers.stop()
