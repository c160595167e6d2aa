"""What every reader measures about itself: is the model waiting for data, or data for the model?"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, fields

READER_BOUND, COMPUTE_BOUND, BALANCED = "reader-bound", "compute-bound", "balanced"
UNKNOWN = "too few batches to tell"
# Share of the time between batches that the consumer waited.
_MUCH, _LITTLE = 0.15, 0.05
_FEW = 3


@dataclass(frozen=True)
class Snapshot:
    """The measurements of one reader so far, in batches and seconds.

    making: the source's time to make batches. blocked: its time waiting for a free place.
    waited: the consumer's time waiting for a batch, out of `active`, the time from one batch to
    the next; the first batch of a pass, which always has to be waited for, is in `warmup`.
    depths: batches that were ready when one was asked for, added up over `intervals` of them.
    """

    name: str
    capacity: int
    produced: int
    consumed: int
    making: float
    blocked: float
    waited: float
    active: float
    warmup: float
    depths: int
    intervals: int

    @property
    def produced_per_second(self) -> float:
        """How fast the source makes batches while it isn't held up by a full queue."""
        return self.produced / self.making if self.making > 0 else 0.0

    @property
    def consumed_per_second(self) -> float:
        """How fast batches were taken."""
        return self.intervals / self.active if self.active > 0 else 0.0

    @property
    def depth(self) -> float:
        """Batches that were ready, on average, when one was asked for."""
        return self.depths / self.intervals if self.intervals else 0.0

    @property
    def waiting_share(self) -> float:
        """The part of its time that the consumer waited for data: 0 to 1."""
        return self.waited / self.active if self.active > 0 else 0.0

    @property
    def verdict(self) -> str:
        """`reader-bound`, `compute-bound` or `balanced`."""
        if self.intervals < _FEW:
            return UNKNOWN
        share = self.waiting_share
        return READER_BOUND if share > _MUCH else COMPUTE_BOUND if share < _LITTLE else BALANCED

    def since(self, earlier: Snapshot) -> Snapshot:
        """What was measured after an earlier snapshot of the same reader."""
        names = [one.name for one in fields(self) if one.name not in ("name", "capacity")]
        parts = {name: getattr(self, name) - getattr(earlier, name) for name in names}
        return Snapshot(self.name, self.capacity, **parts)

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.verdict}; produces {self.produced_per_second:.3g}/s, consumed "
            f"{self.consumed_per_second:.3g}/s, waited {self.waiting_share:.0%} of "
            f"{self.active:.3g} s, queue {self.depth:.1f} of {self.capacity}, "
            f"{self.consumed} batches"
        )


class ReaderStatistics:
    """Counts what passes through one reader. Threads may call it at the same time."""

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self._lock = threading.Lock()
        self._produced = self._consumed = self._intervals = 0
        self._making = self._blocked = self._waited = 0.0
        self._active = self._warmup = 0.0
        self._depths = 0
        self._last: float | None = None
        _measured.append(self)

    def begin(self) -> None:
        """A pass begins: the next wait is its warm-up."""
        with self._lock:
            self._last = None

    def note_made(self, making: float, blocked: float) -> None:
        """The source made a batch in `making` seconds and waited `blocked` to put it down."""
        with self._lock:
            self._produced += 1
            self._making += making
            self._blocked += blocked

    def note_taken(self, waited: float, depth: int) -> None:
        """The consumer got a batch after waiting; `depth` were ready when it asked."""
        now = time.perf_counter()
        with self._lock:
            self._consumed += 1
            if self._last is None:
                self._warmup += waited
            else:
                self._intervals += 1
                self._waited += waited
                self._active += now - self._last
                self._depths += depth
            self._last = now

    def snapshot(self) -> Snapshot:
        """The measurements so far."""
        with self._lock:
            return Snapshot(
                self.name,
                self.capacity,
                self._produced,
                self._consumed,
                self._making,
                self._blocked,
                self._waited,
                self._active,
                self._warmup,
                self._depths,
                self._intervals,
            )


# The last ones made, whether or not their readers still exist.
_measured: deque[ReaderStatistics] = deque(maxlen=256)


def measured() -> dict[ReaderStatistics, Snapshot]:
    """The measurements of all readers of this process that gave a batch, the oldest first."""
    found = {statistics: statistics.snapshot() for statistics in list(_measured)}
    return {one: snapshot for one, snapshot in found.items() if snapshot.consumed}
