"""A loop as it goes by itself: time in runs and between them, and what is done meanwhile."""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import psutil

from refluid.comm.world import attendance
from refluid.core.own_frames import is_part
from refluid.core.waiting import Waiting
from refluid.feed.statistics import ReaderStatistics, Snapshot, measured

_LOOK = 0.002


@dataclass(frozen=True)
class Life:
    """Means of a step, in seconds: all of it, in the run, between runs.

    waited: of it, for readers. reader: the one that was waited for most, as it says itself.
    queue: batches that were ready on average, of how many. lines: of the script, with the share of
    the time between runs that was spent in each. fetched: bytes. waiting: threads that had no core,
    on average. resident: bytes of the process. exchanged: seconds in which exchanges with other
    trainers were waited for.
    """

    steps: int
    period: float
    inside: float
    outside: float
    waited: float
    reader: str
    queue: tuple[float, int]
    lines: list[tuple[str, float]]
    fetched: int
    waiting: float
    resident: int
    exchanged: float = 0.0

    @property
    def own(self) -> float:
        """Seconds that this trainer itself takes for a step."""
        return self.period - self.exchanged


class Living:
    """Measures steps until there are enough. most: so many, or so many seconds."""

    def __init__(self, most: tuple[int, float]) -> None:
        self._most = most
        self._inside: list[float] = []
        self._outside: list[float] = []
        self._fetched = 0
        self._waiting = Waiting()
        self._waiting()
        self._readers = measured()
        self._exchanged = _exchanged()
        self._begin = self._last = time.perf_counter()
        self._lines = _Lines()

    @property
    def is_enough(self) -> bool:
        """Whether so many steps, or seconds, have gone by."""
        steps, seconds = self._most
        return len(self._inside) >= steps or (
            len(self._inside) > 1 and self._last - self._begin > seconds
        )

    def run(self, call: Callable[[], list[Any]]) -> list[Any]:
        """Does what was asked for."""
        start = time.perf_counter()
        self._lines.looks = False
        results = call()
        end = time.perf_counter()
        self._lines.looks = True
        if self._inside:  # what was before the first is not of the loop
            self._outside.append(start - self._last)
        self._inside.append(end - start)
        self._fetched = sum(np.asarray(one).nbytes for one in results)
        self._last = end
        return results

    def end(self) -> Life:
        """What was found."""
        self._lines.end()
        inside, outside = statistics.fmean(self._inside), statistics.fmean(self._outside)
        reader = _most_waited(self._readers)
        return Life(
            len(self._inside),
            inside + outside,
            inside,
            outside,
            reader.waited / max(1, reader.intervals) if reader else 0.0,
            str(reader) if reader else "",
            (reader.depth, reader.capacity) if reader else (0.0, 0),
            self._lines.shares(),
            self._fetched,
            self._waiting(),
            psutil.Process().memory_info().rss,
            (_exchanged() - self._exchanged) / len(self._inside),
        )


def _exchanged() -> float:
    there = attendance()
    return there.waited if there else 0.0


def _most_waited(before: dict[ReaderStatistics, Snapshot]) -> Snapshot | None:
    now = measured()
    since = [one.since(before[reader]) if reader in before else one for reader, one in now.items()]
    used = [one for one in since if one.intervals]
    return max(used, key=lambda one: one.waited, default=None)


class _Lines:
    """Looks now and then which line of the script the main thread is in, while no program runs."""

    def __init__(self) -> None:
        self.looks = False
        self._found: Counter[str] = Counter()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="refluid tune", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        main = threading.main_thread().ident
        while not self._done.wait(_LOOK):
            frame = sys._current_frames().get(main or 0) if self.looks else None
            line = _line_of(frame)
            if line and self.looks:
                self._found[line] += 1

    def end(self) -> None:
        self._done.set()
        self._thread.join()

    def shares(self, most: int = 4) -> list[tuple[str, float]]:
        total = sum(self._found.values())
        return [(line, count / total) for line, count in self._found.most_common(most)]


def _line_of(frame: FrameType | None) -> str:
    """The innermost line that is the user's."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not is_part(name) and "site-packages" not in name and not name.startswith(_LIBRARY):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


_LIBRARY = (f"{sys.base_prefix}/lib", "<")
