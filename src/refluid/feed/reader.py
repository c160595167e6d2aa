"""`QueueReader`: a queue, the thread that fills it, and the count of what was taken."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from refluid.core.errors import EOFException
from refluid.feed.closing import close_at_exit, when_gone
from refluid.feed.portions import ALONE, Portions, Turn
from refluid.feed.pump import Make, Pump
from refluid.feed.queue import BlockingQueue
from refluid.feed.statistics import ReaderStatistics

_EXIT_PATIENCE = 2.0
_readers: weakref.WeakSet[QueueReader] = weakref.WeakSet()


def readers() -> list[QueueReader]:
    """All that there are in this process."""
    return list(_readers)


class QueueReader:
    """Gives the items of one pass after the other; each pass is started by `start`.

    capacity: items that are made ahead. `delivered` counts the items taken in this pass, and
    `ended` says that there are no more. `generation` changes whenever a pass begins or is given
    up. Several threads may take items. `buffers` keeps its double buffers, and
    `latest` what each replica took last, where several trainers read.
    """

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.queue = BlockingQueue(capacity)
        self.portions = Portions(self.queue)
        self.statistics = ReaderStatistics(name, capacity)
        self.delivered = 0
        self.ended = False
        self.generation = 0
        self.buffers: dict[Any, Any] = {}
        self.latest: dict[Any, Any] = {}
        self._lock = threading.Lock()
        self._pump: Pump | None = None
        self._cancel: Callable[[], None] | None = None
        self._followers: list[weakref.ref[BlockingQueue]] = []
        self._ending = threading.RLock()
        _readers.add(self)
        when_gone(self, self.queue.kill)
        close_at_exit(self)

    @property
    def started(self) -> bool:
        """Whether a pass was started and not reset."""
        return self._pump is not None

    def deepen(self, capacity: int) -> None:
        """From now on so many items are made ahead."""
        self.queue.resize(capacity)
        self.statistics.capacity = capacity

    def start(self, make: Make, cancel: Callable[[], None] | None = None) -> None:
        """Begins a pass over `make()`, which a thread iterates. Ends the pass before.

        cancel: wakes the source where it waits for something else than the queue.
        """
        self.reset()
        self.statistics.begin()
        self._cancel = cancel
        try:
            self._pump = Pump(make, self.queue, self.statistics, self.name)
        except BaseException:  # an interrupt, after which nobody would end the thread
            self.abandon(self.generation)
            raise

    def reset(self) -> None:
        """Ends the pass; what was made and not taken is lost. Nothing to end is fine."""
        self._stop(None)

    def close(self) -> None:
        """As `reset`, but waits only a moment for a source that doesn't let go."""
        self._stop(_EXIT_PATIENCE)

    def abandon(self, generation: int) -> None:
        """As `reset`, but waits for nothing, and only if that pass is still going on."""
        self._stop(0, generation)

    def _stop(self, timeout: float | None, generation: int | None = None) -> None:
        with self._ending:
            if generation not in (None, self.generation):
                return
            pump, cancel = self._pump, self._cancel
            self._pump = self._cancel = None
            self.generation += 1
            self.delivered, self.ended = 0, False
            self.queue.kill()
        for follower in list(self._followers):
            queue = follower()
            if queue is not None:
                queue.kill()
        if cancel is not None:
            cancel()
        if pump is not None:
            pump.stop(timeout)

    def follow(self, queue: BlockingQueue) -> None:
        """Has `queue`, which somebody fills from this reader, end with each pass."""
        self._followers = [one for one in self._followers if one() is not None]
        self._followers.append(weakref.ref(queue))

    def next(self, turn: Turn = ALONE) -> Any:
        """The next item (of the replica whose turn it is), waiting for it.

        Raises EOFException at the end of the pass, ReaderFailed where the source raised an
        exception, NotStarted outside of a pass.
        """
        ticket = self.queue.ticket
        return self.timed(lambda: self.portions.pop(turn, ticket), self.queue.size())

    def timed(self, take: Callable[[], Any], depth: int) -> Any:
        """What `take` returns, counted as given to the model, and how long that took.

        depth: items that were ready.
        """
        start = time.perf_counter()
        try:
            item = take()
        except EOFException:
            self.ended = True
            raise
        self.statistics.note_taken(time.perf_counter() - start, depth)
        with self._lock:
            self.delivered += 1
        return item
