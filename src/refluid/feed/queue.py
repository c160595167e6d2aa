"""`BlockingQueue`: a bounded queue whose end and failures reach the consumer in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from refluid.core import flags
from refluid.core.bounds import whole_number
from refluid.core.errors import EOFException
from refluid.core.whole_threads import Waiters
from refluid.feed.errors import NotStarted

Ending = Callable[[], BaseException]


def _not_started() -> BaseException:
    return NotStarted(
        "the reader was not started: call its start() before running the program, and again "
        "after each reset()"
    )


def _at_end() -> BaseException:
    return EOFException("There is no next data.")


class BlockingQueue:
    """Holds up to `capacity` items of one pass over the data.

    `reopen` begins a pass and gives a ticket; a producer that still holds an older ticket can't
    push any more. What `close` and `fail` say comes after the items pushed before.
    With FLAGS_reader_queue_speed_test_mode items stay in the queue and there is no end.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = whole_number("the capacity of a reader", capacity, least=1)
        self._items: deque[Any] = deque()
        # Entering a lock can't be interrupted halfway, as entering a condition can.
        self._lock = threading.Lock()
        self._filled, self._emptied = Waiters(), Waiters()
        self._ending: Ending | None = _not_started
        self._ticket = 0

    def capacity(self) -> int:
        """The most items held."""
        return self._capacity

    def resize(self, capacity: int) -> None:
        """From now on at most so many items are held; those above it are still taken."""
        with self._lock:
            self._capacity = whole_number("the capacity of a reader", capacity, least=1)
            self._emptied.wake()

    def size(self) -> int:
        """The number of items held now."""
        return len(self._items)

    def is_closed(self) -> bool:
        """Whether no more items will come in this pass."""
        return self._ending is not None

    def reopen(self) -> int:
        """Drops all items and begins a pass; the ticket of its producer."""
        with self._lock:
            self._restart(None)
            return self._ticket

    def push(self, item: Any, ticket: int | None = None) -> bool:
        """Adds an item, waiting while the queue is full; False where nobody wants it any more.

        Without a ticket the queue is opened where it was not yet.
        """
        while True:
            with self._lock:
                if ticket is None:
                    if self._ending is _not_started:
                        self._restart(None)
                    ticket = self._ticket
                if not self._wants(ticket):
                    return False
                if len(self._items) < self._capacity:
                    self._items.append(item)
                    self._filled.wake()
                    return True
                emptied = self._emptied.join()
            emptied.acquire()

    @property
    def ticket(self) -> int:
        """The ticket of the present pass."""
        return self._ticket

    def pop(self, ticket: int | None = None, repeating: bool = True) -> Any:
        """Takes the oldest item, waiting for one.

        Raises EOFException after the last item, what `fail` was given after a failure, and
        NotStarted outside of a pass (of the one of `ticket`, if given); again at each further
        call. repeating: whether the flag for speed tests holds for this queue.
        """
        while True:
            with self._lock:
                ticket = self._ticket if ticket is None else ticket
                if self._items or not self._wants(ticket):
                    return self._taken(ticket, repeating)
                filled = self._filled.join()
            filled.acquire()

    def peek(self, ticket: int) -> Any:
        """The oldest item, which stays; None where there is none yet, or outside of that pass."""
        with self._lock:
            return self._items[0] if self._items and ticket == self._ticket else None

    def close(self, ticket: int | None = None) -> None:
        """Says that the pass ends after the items pushed so far."""
        self._end(_at_end, ticket)

    def fail(self, ending: Ending, ticket: int | None = None) -> None:
        """Says that the pass ends with an error, made by `ending` for each `pop`."""
        self._end(ending, ticket)

    def kill(self) -> None:
        """Drops all items and ends the pass at once; whoever waits returns."""
        with self._lock:
            self._restart(_not_started)

    def _taken(self, ticket: int, repeating: bool) -> Any:
        if ticket != self._ticket:
            raise _not_started()
        if not self._items:
            assert self._ending is not None
            raise self._ending()
        if repeating and flags.value("reader_queue_speed_test_mode"):
            return self._items[0]
        self._emptied.wake()
        return self._items.popleft()

    def _wants(self, ticket: int) -> bool:
        return ticket == self._ticket and self._ending is None

    def _restart(self, ending: Ending | None) -> None:
        self._ticket += 1
        self._items.clear()
        self._ending = ending
        self._wake()

    def _end(self, ending: Ending, ticket: int | None) -> None:
        with self._lock:
            if self._wants(self._ticket if ticket is None else ticket):
                self._ending = ending
                self._wake()

    def _wake(self) -> None:
        self._filled.wake()
        self._emptied.wake()
