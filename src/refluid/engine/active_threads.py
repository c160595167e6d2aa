"""Whether all training threads of a dataset take batches, or the first one alone.

Steps of many short operators are mostly Python, which one thread at a time can run: several threads
then get in each other's way, and train fewer batches together than one by itself. So both are timed
in slices of passes, and the faster way is kept for that program.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from statistics import median

from refluid.core.threads import may_adapt

_LOGGER = logging.getLogger("refluid")

# A slice has steps of so many seconds, and so many for each thread at least; there are so many of
# each way. One thread must be so many times as fast: several were asked for.
_SLICE, _EACH, _SLICES = 0.15, 8, 3
_GAIN = 1.03


class ActiveThreads:
    """Which of so many threads take batches: they `wait` before each, and `note` that it is done.

    All do where repeatable numbers are asked for, or `FLAGS_refluid_adaptive_threads` is off.
    """

    def __init__(self, threads: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._threads, self._clock = threads, clock
        self._lock, self._all_go = threading.Lock(), threading.Event()
        self._took: dict[bool, list[float]] = {False: [], True: []}
        self._running = self._alone = self._decided = False
        # Of the slice; and when the step before ended.
        self._seconds, self._steps = 0.0, 0
        self._before: float | None = None

    def begin(self) -> None:
        """A pass begins."""
        with self._lock:
            self._running, self._before = True, None
            self._let()

    def end(self) -> None:
        """It ends, or is ended: none waits any longer."""
        with self._lock:
            self._running, self._before = False, None
            self._let()

    def wait(self, number: int) -> None:
        """Until thread `number` may take a batch."""
        if number:
            self._all_go.wait()

    def note(self) -> None:
        """A step was made."""
        if self._decided or not may_adapt():
            return
        with self._lock:
            now, before = self._clock(), self._before
            self._before = now
            if before is not None:  # else it began under other circumstances
                self._count(now - before)

    def _let(self) -> None:
        if self._running and self._alone and may_adapt():
            self._all_go.clear()
        else:
            self._all_go.set()

    def _count(self, seconds: float) -> None:
        self._seconds, self._steps = self._seconds + seconds, self._steps + 1
        if self._steps < _EACH * self._threads or self._seconds < _SLICE or self._decided:
            return
        self._took[self._alone].append(self._seconds / self._steps)
        self._seconds, self._steps, self._before = 0.0, 0, None
        if len(self._took[True]) < _SLICES:
            self._alone = not self._alone
        else:
            self._decide()
        self._let()

    def _decide(self) -> None:
        together, alone = (median(self._took[way]) for way in (False, True))
        self._alone, self._decided = together >= _GAIN * alone, True
        _LOGGER.info(
            "of %d training threads %s: %.3g ms a batch by all, %.3g by one",
            self._threads,
            "the first one trains" if self._alone else "all train",
            together * 1e3,
            alone * 1e3,
        )
