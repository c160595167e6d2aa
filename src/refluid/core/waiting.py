"""How much the threads of this process wait for cores, which tells that others hold them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

resource: ModuleType | None
try:
    import resource
except ImportError:  # not a Unix
    resource = None

# Seconds that each thread ran, and seconds that it was ready to run but had no core, by its number.
WaitingTimes = dict[int, tuple[float, float]]

_TASKS = Path("/proc/self/task")
# A thread that is stopped for another waits for about as long as the other may run.
_TURN = 0.004


def times() -> WaitingTimes:
    """Those of this process, since its threads began.

    Exact on Linux. Elsewhere, or where the kernel doesn't count them, a guess by how often threads
    were stopped for others, as thread 0; nothing where that isn't known either.
    """
    return _by_kernel() or _by_switches()


def _by_kernel() -> WaitingTimes:
    found = {}
    try:
        threads = os.listdir(_TASKS)
    except OSError:
        return {}
    for thread in threads:
        try:
            running, waiting, _ = (_TASKS / thread / "schedstat").read_text().split()
            found[int(thread)] = int(running) * 1e-9, int(waiting) * 1e-9
        except (OSError, ValueError):  # the thread has ended, or the kernel lacks the file
            continue
    counts = any(running for running, _ in found.values())  # else it was told not to
    return found if counts else {}


def _by_switches() -> WaitingTimes:
    if resource is None:
        return {}
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {0: (used.ru_utime + used.ru_stime, used.ru_nivcsw * _TURN)}


_AT_START = times()


class Waiting:
    """Called, it gives the mean number of threads that waited since the call before.

    The mean is over the time in which the busiest thread ran or waited, so pauses don't count.
    read: as `times`. since: what it gave when counting began; that is when refluid was imported.
    """

    def __init__(
        self, read: Callable[[], WaitingTimes] = times, since: WaitingTimes = _AT_START
    ) -> None:
        self._read, self._before = read, since

    def __call__(self) -> float:
        found, before = self._read(), self._before
        self._before = found
        none = 0.0, 0.0
        busiest = waits = 0.0
        for thread, (running, waiting) in found.items():
            ran, waited = before.get(thread, none)
            busiest = max(busiest, running - ran + waiting - waited)
            waits += waiting - waited
        return max(0.0, waits) / busiest if busiest > 0 else 0.0
