"""Readers make more batches ahead where that would have spared a wait."""

from __future__ import annotations

from collections.abc import Iterator

from refluid.feed.reader import QueueReader, readers
from refluid.feed.statistics import Snapshot

_LOOK, _MOST = 1.0, 64
# A reader that waited for room, and was waited for, both for so much of the time, is uneven: with
# more room it makes ahead what is missing later.
_NOTABLE = 0.02


class ReaderDepth:
    """Looks at each reader now and then, and gives it twice the room where that helps."""

    def __init__(self) -> None:
        self._next = 0.0
        self._before: dict[QueueReader, Snapshot] = {}
        self._changed: dict[QueueReader, tuple[int, Snapshot, Snapshot]] = {}

    def look(self, now: float) -> None:
        """At most once a second."""
        if now < self._next:
            return
        self._next = now + _LOOK
        for reader in readers():
            found = reader.statistics.snapshot()
            before = self._before.get(reader)
            self._before[reader] = found
            if before is not None and self._is_uneven(found.since(before)):
                first = self._changed.get(reader, (found.capacity, found, found))
                reader.deepen(min(_MOST, 2 * found.capacity))
                self._changed[reader] = (first[0], first[1], found)

    def _is_uneven(self, recent: Snapshot) -> bool:
        busy = recent.making + recent.blocked
        return (
            recent.capacity < _MOST
            and recent.intervals > 0
            and recent.waiting_share > _NOTABLE
            and recent.blocked > _NOTABLE * busy
        )

    def told(self) -> Iterator[str]:
        """What became of readers that were given more room."""
        for reader, (capacity, first, last) in self._changed.items():
            since = reader.statistics.snapshot().since(last)
            yield (
                f"{reader.name}: {reader.queue.capacity()} batches ahead instead of {capacity}: "
                f"{since.waiting_share:.0%} of the time is waited instead of "
                f"{first.waiting_share:.0%}"
            )
