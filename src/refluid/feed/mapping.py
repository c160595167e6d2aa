"""`parallel_map`: a function of each item, computed by several threads ahead of the consumer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from refluid.core.whole_threads import Waiters, begin
from refluid.feed.closing import ClosingIterator

_NAME = "refluid xmap"


class _Work:
    """What the reading thread, the mapping threads and the consumer share.

    At most `size` items are read and not yet taken. Items are numbered as they are read; what
    goes wrong with one is kept in its place.
    """

    def __init__(self, mapper: Callable[[Any], Any], size: int) -> None:
        self.mapper = mapper
        self._size = size
        self._lock = threading.Lock()
        self._changed = Waiters()
        self._todo: dict[int, Any] = {}
        self._done: dict[int, tuple[Any, BaseException | None]] = {}
        self._read = self._taken = 0
        self._reading, self._stopped = True, False

    def stop(self) -> None:
        """Nobody wants more."""
        with self._lock:
            self._stopped = True
            self._changed.wake()

    def add(self, item: Any) -> bool:
        """An item was read; False where no more are wanted."""
        while True:
            with self._lock:
                if self._stopped:
                    return False
                if self._read - self._taken < self._size:
                    self._todo[self._read] = item
                    self._read += 1
                    self._changed.wake()
                    return True
                changed = self._changed.join()
            changed.acquire()

    def read_all(self, error: BaseException | None = None) -> None:
        """No more items come; with an error in the place of the next one."""
        with self._lock:
            if error is not None:
                self._done[self._read] = (None, error)
                self._read += 1
            self._reading = False
            self._changed.wake()

    def map_next(self) -> bool:
        """Maps one item; False when there is nothing left to do."""
        found = self._next_to_map()
        if found is None:
            return False
        number, item = found
        try:
            result: tuple[Any, BaseException | None] = (self.mapper(item), None)
        except BaseException as error:
            result = (None, error)
        with self._lock:
            self._done[number] = result
            self._changed.wake()
        return True

    def take(self, order: bool) -> tuple[Any, BaseException | None] | None:
        """The next result, in order or any; None after the last."""
        while True:
            with self._lock:
                if self._available(order):
                    number = self._taken if order else next(iter(self._done))
                    self._taken += 1
                    self._changed.wake()
                    return self._done.pop(number)
                if self._all_taken():
                    return None
                changed = self._changed.join()
            changed.acquire()

    def _next_to_map(self) -> tuple[int, Any] | None:
        while True:
            with self._lock:
                if self._stopped or not (self._todo or self._reading):
                    return None
                if self._todo:
                    number = next(iter(self._todo))
                    return number, self._todo.pop(number)
                changed = self._changed.join()
            changed.acquire()

    def _available(self, order: bool) -> bool:
        return self._taken in self._done if order else bool(self._done)

    def _all_taken(self) -> bool:
        return not self._reading and self._taken == self._read


def parallel_map(
    mapper: Callable[[Any], Any],
    items: Callable[[], Iterable[Any]],
    threads: int,
    size: int,
    order: bool,
) -> Iterator[Any]:
    """`mapper(item)` of each of `items()`, computed by `threads` threads.

    size: items that may be read ahead. order: results come in the order of the items. What
    `mapper` or `items` raise is raised here. The threads end with the iterator.
    """
    return ClosingIterator(_results(_Work(mapper, max(size, 1)), items, max(threads, 1), order))


def _results(
    work: _Work, items: Callable[[], Iterable[Any]], threads: int, order: bool
) -> Generator[Any, None, None]:
    running: list[threading.Thread] = []
    try:
        running.append(_start(_read, items, work))
        while len(running) <= threads:
            running.append(_start(_map, work))
        while (found := work.take(order)) is not None:
            value, error = found
            if error is not None:
                raise error
            yield value
    finally:
        work.stop()
        for thread in running:
            thread.join()


def _start(target: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, name=_NAME, daemon=True)
    begin(thread)
    return thread


def _read(items: Callable[[], Iterable[Any]], work: _Work) -> None:
    try:
        for item in items():
            if not work.add(item):
                return
    except BaseException as error:
        work.read_all(error)
    else:
        work.read_all()


def _map(work: _Work) -> None:
    while work.map_next():
        pass
