"""Read ahead: a thread fills a short queue while the training step runs."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetch(Generic[T]):
    """Iterate over `source`, of which a thread reads up to `depth` items ahead.

    `waited` is how many seconds the consumer waited so far.

    An exception in `source` is raised to the consumer after the items before it. Use it in a `with`
    block: leaving the block stops the thread, also in the middle.
    """

    def __init__(self, source: Iterable[T], depth: int = 8) -> None:
        self.waited = 0.0
        self._source = source
        self._queue: queue.Queue[tuple[str, T | BaseException | None]] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="prefetch", daemon=True)

    def __enter__(self) -> Prefetch[T]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def __iter__(self) -> Iterator[T]:
        while True:
            begin = time.perf_counter()
            kind, item = self._queue.get()
            self.waited += time.perf_counter() - begin
            if kind == "item":
                yield item  # type: ignore[misc]
            elif kind == "error":
                raise item  # type: ignore[misc]
            else:
                return

    def _fill(self) -> None:
        try:
            for item in self._source:
                if not self._put(("item", item)):
                    return
        except BaseException as error:
            self._put(("error", error))
        else:
            self._put(("end", None))

    def _put(self, entry: tuple[str, T | BaseException | None]) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(entry, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False
