"""A loop as it goes by itself: time in runs and between them, and what is done meanwhile."""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import psutil

from refluid.comm.world import attendance
from refluid.core.own_frames import is_part
from refluid.core.waiting import Waiting
from refluid.feed.statistics import ReaderStatistics, Snapshot, measured

_LOOK = 0.002
# Losses of so many steps are kept. A fetch of so many elements is a number for each replica.
_KEPT, _FEW = 64, 64


@dataclass(frozen=True)
class LoopKind:
    """What can be done with a loop.

    at_once: it is one of dygraph. servers: its steps talk to servers of tables. beside, possible:
    threads that train on a dataset, and how many could.
    """

    at_once: bool = False
    servers: bool = False
    beside: int = 1
    possible: int = 1

    @property
    def passes(self) -> bool:
        """Whether its steps can't be run again: what they do isn't in this process, or is Python,
        or other threads do some. It then goes on, in a process for each way of running it."""
        return self.at_once or not self.is_exact

    @property
    def is_exact(self) -> bool:
        """Whether a process started anew has the same losses."""
        return self.beside == 1 and not self.servers


@dataclass(frozen=True)
class Life:
    """Means of a step, in seconds: all of it, in the run, between runs.

    waited: of it, for readers. reader: the one that was waited for most, as it says itself.
    queue: batches that were ready on average, of how many. lines: of the script, with the share of
    the time between runs that was spent in each. fetched: bytes. waiting: threads that had no core,
    on average. resident: bytes of the process. exchanged: seconds in which exchanges with other
    trainers were waited for. losses: of the first steps.
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
    losses: list[float] = field(default_factory=list)
    kind: LoopKind = LoopKind()

    @property
    def own(self) -> float:
        """Seconds that this trainer itself takes for a step."""
        return self.period - self.exchanged


def life_of(told: dict[str, Any]) -> Life:
    """What `asdict` made of one."""
    return Life(**{**told, "kind": LoopKind(**told["kind"])})


class Living:
    """Measures steps until there are enough. most: so many, or so many seconds."""

    def __init__(self, most: tuple[int, float], kind: LoopKind = LoopKind()) -> None:
        self._most, self._kind = most, kind
        self._losses: list[float] = []
        self._late: Any = None
        self._inside: list[float] = []
        self._outside: list[float] = []
        self._fetched = 0
        self._waiting = Waiting()
        self._waiting()
        self._readers = measured()
        self._exchanged = _exchanged()
        self._begin = self._last = time.perf_counter()
        self._lines = _Lines()
        self._lines.looks = kind.at_once

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
        if len(self._losses) < _KEPT:
            self._losses.append(sum(numbers_of(results)))
        self._last = end
        return results

    def passed(self, loss: Any) -> None:
        """A step of dygraph ended, all of which was its run; loss: None where it isn't known."""
        end = time.perf_counter()
        self._inside.append(end - self._last)
        self._outside.append(0.0)
        self._keep_late()
        self._late, self._last = loss, end

    def _keep_late(self) -> None:
        """Of the step before, whose loss nobody waits for any more."""
        if self._late is not None and len(self._losses) < _KEPT:
            self._losses.append(sum(numbers_of([self._late.numpy()])))
        self._late = None

    def end(self) -> Life:
        """What was found. Threads that train at once share the time of a step."""
        self._lines.end()
        self._keep_late()
        inside, outside = (
            statistics.fmean(one) / self._kind.beside for one in (self._inside, self._outside)
        )
        if self._kind.at_once:
            outside = inside * self._lines.outside
            inside -= outside
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
            self._losses,
            self._kind,
        )


def numbers_of(results: Sequence[Any]) -> list[float]:
    """The means of what was fetched as one number for each replica: losses, accuracies."""
    arrays = [np.asarray(one) for one in results]
    return [float(one.mean()) for one in arrays if one.dtype.kind == "f" and 0 < one.size <= _FEW]


def _exchanged() -> float:
    there = attendance()
    return there.waited if there else 0.0


def _most_waited(before: dict[ReaderStatistics, Snapshot]) -> Snapshot | None:
    now = measured()
    since = [one.since(before[reader]) if reader in before else one for reader, one in now.items()]
    used = [one for one in since if one.intervals]
    return max(used, key=lambda one: one.waited, default=None)


class _Lines:
    """Looks now and then which line of the script the main thread is in, while no program runs;
    in loops of dygraph, where operators are calls like others, whether it is in none of these."""

    def __init__(self) -> None:
        self.looks = False
        self._found: Counter[str] = Counter()
        self._outside = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="refluid tune", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        main = threading.main_thread().ident or 0
        while not self._done.wait(_LOOK):
            line, outside = _seen(main) if self.looks else ("", False)
            if line and self.looks:
                self._found[line] += 1
                self._outside += outside

    def end(self) -> None:
        self._done.set()
        self._thread.join()

    @property
    def outside(self) -> float:
        """Of the looks, those that found the script itself, or other libraries that it calls."""
        return self._outside / max(1, sum(self._found.values()))

    def shares(self, most: int = 4) -> list[tuple[str, float]]:
        total = sum(self._found.values())
        return [(line, count / total) for line, count in self._found.most_common(most)]


def _seen(thread: int) -> tuple[str, bool]:
    """The line, and whether no operator is being called. Keeps no frame: that would keep what the
    script's functions have in theirs, past their end."""
    frame = sys._current_frames().get(thread)
    return _line_of(frame), not _computes(frame)


def _computes(frame: FrameType | None) -> bool:
    """Whether it was called by refluid."""
    while frame is not None and not _is_users(frame):
        if is_part(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False


def _line_of(frame: FrameType | None) -> str:
    """The innermost line that is the user's."""
    while frame is not None:
        if _is_users(frame):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _is_users(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return not (is_part(name) or "site-packages" in name or name.startswith(_LIBRARY))


_LIBRARY = (f"{sys.base_prefix}/lib", "<")
