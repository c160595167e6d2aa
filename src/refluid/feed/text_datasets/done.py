"""`Done`: which rows of a dataset were trained in a pass, exactly, in whatever order."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Span(NamedTuple):
    """Rows `start` to `stop - 1` of a file; rows in memory count as one file, number 0."""

    file: int
    start: int
    stop: int


class Done:
    """A set of rows, as few intervals per file. Threads may add to it at the same time.

    `batches` and `rows` count what was added.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._intervals: dict[int, list[tuple[int, int]]] = {}
        self._rows: dict[int, int] = {}
        self.batches = self.rows = 0

    def add(self, spans: Iterable[Span]) -> None:
        """The rows of a batch were trained."""
        with self._lock:
            self.batches += 1
            for file, start, stop in spans:
                self.rows += stop - start
                _join(self._intervals.setdefault(file, []), start, stop)

    def note_end(self, file: int, rows: int) -> None:
        """The file was read to its end: it has so many rows."""
        with self._lock:
            self._rows[file] = rows

    def complete(self, file: int) -> bool:
        """Whether all rows of a file are done, so that it needn't be opened."""
        with self._lock:
            rows = self._rows.get(file)
            return rows is not None and self._first_open(file) >= rows

    def first_open(self, file: int) -> int:
        """The first row of a file that isn't done."""
        with self._lock:
            return self._first_open(file)

    def _first_open(self, file: int) -> int:
        known = self._intervals.get(file)
        return known[0][1] if known and known[0][0] == 0 else 0

    def left(self, file: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The parts of rows start to stop - 1 that aren't done."""
        with self._lock:
            known = list(self._intervals.get(file, ()))
        for first, last in known:
            if start < first and start < stop:
                yield start, min(first, stop)
            start = max(start, last)
        if start < stop:
            yield start, stop

    def state(self) -> dict[str, Any]:
        """All of it as lists of numbers."""
        with self._lock:
            return {
                "batches": self.batches,
                "done": [
                    [file, start, stop]
                    for file, known in sorted(self._intervals.items())
                    for start, stop in known
                ],
                "ends": sorted([file, rows] for file, rows in self._rows.items()),
            }

    @classmethod
    def load(cls, state: dict[str, Any]) -> Done:
        """What `state` described."""
        done = cls()
        done.add(Span(*map(int, one)) for one in state["done"])
        done.batches = int(state["batches"])
        for file, rows in state["ends"]:
            done.note_end(int(file), int(rows))
        return done


def _join(known: list[tuple[int, int]], start: int, stop: int) -> None:
    """Adds an interval to sorted ones, and joins it with those that it touches."""
    place = bisect_left(known, (start, stop))
    if place and known[place - 1][1] >= start:
        place -= 1
        start, stop = known[place][0], max(stop, known[place][1])
        del known[place]
    while place < len(known) and known[place][0] <= stop:
        stop = max(stop, known[place][1])
        del known[place]
    insort(known, (start, stop))
