"""`refluid run --watch`: whether the readers keep the model busy, live and as a summary.

On a terminal a line per reader stands at the bottom; elsewhere lines are printed now and then.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from rich.table import Table

from refluid.cli.console import messages
from refluid.feed.live import on_terminal, told
from refluid.feed.statistics import (
    BALANCED,
    COMPUTE_BOUND,
    READER_BOUND,
    ReaderStatistics,
    Snapshot,
    measured,
)

_PERIOD = 5.0
_COLUMNS = ("reader", "", "produces", "consumed", "waited", "queue", "batches")
_ADVICE = {
    READER_BOUND: (
        "the model waits for data: prepare them in processes (use_multiprocess=True, "
        "num_workers), a dataset's in more threads (set_thread, of no more than its files); leave "
        "work to the program (uint8 images), or make the generator faster"
    ),
    COMPUTE_BOUND: "the readers keep up: a faster step is the only thing that helps",
    BALANCED: "readers and model are about as fast as each other",
}


@contextmanager
def watching(period: float = _PERIOD) -> Iterator[None]:
    """Within the block, tells how each reader that gave batches did in the last `period` seconds;
    at the end how each did altogether, and what follows."""
    try:
        with told(_Readers(period)) if on_terminal() else _printed(period):
            yield
    finally:
        _summarise()


@contextmanager
def _printed(period: float) -> Iterator[None]:
    done = threading.Event()
    thread = threading.Thread(target=_watch, args=(done, period), name="refluid watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class _Readers:
    """The lines at the bottom of the terminal."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._earlier: deque[tuple[float, dict[ReaderStatistics, Snapshot]]] = deque()

    def __call__(self) -> Table:
        """A line per reader, about its last seconds."""
        now, found = time.monotonic(), measured()
        self._earlier.append((now, found))
        while now - self._earlier[0][0] > self._period:
            self._earlier.popleft()
        then = self._earlier[0][1]
        table = Table(*_COLUMNS, box=None, pad_edge=False)
        for reader, snapshot in found.items():
            recent = snapshot.since(then[reader]) if reader in then else snapshot
            if recent.consumed:
                table.add_row(*_cells(recent, snapshot.consumed))
        return table


def _cells(recent: Snapshot, batches: int) -> tuple[str, ...]:
    return (
        recent.name,
        recent.verdict,
        f"{recent.produced_per_second:.3g}/s",
        f"{recent.consumed_per_second:.3g}/s",
        f"{recent.waiting_share:.0%}",
        f"{recent.depth:.1f} of {recent.capacity}",
        f"{batches:,}",
    )


def _watch(done: threading.Event, period: float) -> None:
    earlier: dict[ReaderStatistics, Snapshot] = {}
    while not done.wait(period):
        now = measured()
        for reader, snapshot in now.items():
            recent = snapshot.since(earlier[reader]) if reader in earlier else snapshot
            if recent.consumed:
                _say(str(recent))
        earlier = now


def _summarise() -> None:
    found = list(measured().values())
    for snapshot in found:
        _say(f"{snapshot}, {snapshot.warmup:.3g} s until the first batches")
    for verdict in dict.fromkeys(one.verdict for one in found):
        if verdict in _ADVICE:
            _say(f"{verdict}: {_ADVICE[verdict]}")


def _say(text: str) -> None:
    messages().print(f"refluid: {text}", markup=False, soft_wrap=True)
