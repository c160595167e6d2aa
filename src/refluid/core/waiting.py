"""How many threads of this process wait for a core, which tells that others hold the cores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

_TASKS = Path("/proc/self/task")
# A thread that is stopped for another waits for about as long as the other may run.
_TURN = 0.004


def waited() -> dict[int, float]:
    """Seconds that each thread of this process was ready to run but had no core, by its number.

    Exact on Linux. Elsewhere, or where the kernel doesn't count them, a guess by how often threads
    were stopped for others, as thread 0; nothing where that isn't known either.
    """
    return _by_kernel() or _by_switches()


def _by_kernel() -> dict[int, float]:
    found, ran = {}, False
    try:
        threads = os.listdir(_TASKS)
    except OSError:
        return {}
    for thread in threads:
        try:
            running, waiting, _ = (_TASKS / thread / "schedstat").read_text().split()
        except (OSError, ValueError):  # the thread has ended, or the kernel lacks the file
            continue
        found[int(thread)] = int(waiting) * 1e-9
        ran = ran or running != "0"  # a kernel that was told not to count writes zeros
    return found if ran else {}


def _by_switches() -> dict[int, float]:
    if resource is None:
        return {}
    return {0: resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw * _TURN}


_AT_START = time.monotonic(), waited()


class Waiting:
    """Called, it gives the mean number of threads that waited since the call before.

    read: as `waited`. clock: seconds. since: what both gave when counting began; that is when
    refluid was imported.
    """

    def __init__(
        self,
        read: Callable[[], dict[int, float]] = waited,
        clock: Callable[[], float] = time.monotonic,
        since: tuple[float, dict[int, float]] = _AT_START,
    ) -> None:
        self._read, self._clock = read, clock
        self._then, self._before = since

    def __call__(self) -> float:
        now, found = self._clock(), self._read()
        before, seconds = self._before, now - self._then
        self._then, self._before = now, found
        waits = sum(found[thread] - before.get(thread, 0.0) for thread in found)
        return max(0.0, waits) / seconds if seconds > 0 else 0.0
