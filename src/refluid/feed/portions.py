"""`Portions`: several replicas take the items of one reader, always the same ones."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any, NamedTuple

from refluid.feed.queue import BlockingQueue


class Turn(NamedTuple):
    """Which of `size` replicas takes an item."""

    rank: int
    size: int


ALONE = Turn(0, 1)


class Portions:
    """Deals items in turn: replica r of n gets the items r, r + n, r + 2n and so on.

    Whoever comes first takes items out of the queue for the others too, so nobody waits for
    another replica.
    """

    def __init__(self, queue: BlockingQueue) -> None:
        self._queue = queue
        self._lock = threading.Lock()
        self._ticket = -1
        self._next = 0
        self._waiting: dict[int, Any] = {}
        self._given: defaultdict[Turn, int] = defaultdict(int)

    def pop(self, turn: Turn, ticket: int) -> Any:
        """The next item of that replica, in the pass of `ticket`; raises as `BlockingQueue.pop`."""
        if turn.size == 1:
            return self._queue.pop(ticket)
        with self._lock:
            if ticket != self._ticket:
                self._ticket, self._next = ticket, 0
                self._waiting.clear()
                self._given.clear()
            number = self._given[turn] * turn.size + turn.rank
            while number not in self._waiting:
                self._waiting[self._next] = self._queue.pop(ticket)
                self._next += 1
            self._given[turn] += 1
            return self._waiting.pop(number)
