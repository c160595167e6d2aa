"""`refluid run --watch`: what steps take, and whether readers keep up, live and as a summary.

On a terminal a line for each program that runs and for each reader stands at the bottom; elsewhere
lines are printed now and then.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from rich.console import Group
from rich.table import Table

from refluid.cli.console import messages
from refluid.cli.step_figures import ProgramSteps, StepFigures, StepSums
from refluid.engine.listening import heard_by
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
_PROGRAM_COLUMNS = ("program", "steps", "a step", "in runs", "between", "fetched")
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
    """Within the block, tells how each program that runs and each reader that gave batches did in
    the last `period` seconds; at the end how each did altogether, and what follows."""
    figures = StepFigures()
    live = told(_BottomLines(figures, period)) if on_terminal() else _printed(figures, period)
    try:
        with heard_by(figures, steps=figures.step), live:
            yield
    finally:
        _summarise(figures)


@contextmanager
def _printed(figures: StepFigures, period: float) -> Iterator[None]:
    done = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(figures, done, period), name="refluid watch", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class _BottomLines:
    """The lines at the bottom of the terminal."""

    def __init__(self, figures: StepFigures, period: float) -> None:
        self._figures, self._period = figures, period
        self._earlier: deque[tuple[float, dict[ReaderStatistics, Snapshot]]] = deque()
        self._taken, self._next = list[tuple[ProgramSteps, StepSums]](), 0.0

    def __call__(self) -> Group:
        """What there is to tell of the last seconds."""
        return Group(self._programs(), self._readers())

    def _programs(self) -> Table:
        now = time.monotonic()
        if now >= self._next:
            self._taken, self._next = self._figures.take(), now + 1
        table = Table(*_PROGRAM_COLUMNS, box=None, pad_edge=False)
        for program, sums in self._taken:
            table.add_row(program.label, f"{program.steps:,}", *_times(sums), _fetched(sums))
        return table

    def _readers(self) -> Table:
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


def _times(sums: StepSums) -> tuple[str, str, str]:
    means = sums.means()
    parts = 1e3 * sums.period, means["run ms"], means.get("between runs ms", 0.0)
    whole, inside, between = (f"{one:.3g} ms" for one in parts)
    return whole, inside, between


def _fetched(sums: StepSums) -> str:
    return ", ".join(f"{name} {total / sums.steps:.4g}" for name, total in sums.fetched.items())


def _line(program: ProgramSteps, sums: StepSums) -> str:
    whole, inside, between = _times(sums)
    fetched = _fetched(sums)
    return (
        f"{program.label}: {program.steps:,} steps, {whole} each, {inside} in runs and {between} "
        f"between{'; ' if fetched else ''}{fetched}"
    )


def _watch(figures: StepFigures, done: threading.Event, period: float) -> None:
    earlier: dict[ReaderStatistics, Snapshot] = {}
    while not done.wait(period):
        for program, sums in figures.take():
            if program.steps > 1:
                _say(_line(program, sums))
        now = measured()
        for reader, snapshot in now.items():
            recent = snapshot.since(earlier[reader]) if reader in earlier else snapshot
            if recent.consumed:
                _say(str(recent))
        earlier = now


def _summarise(figures: StepFigures) -> None:
    for program in figures.programs():
        if program.steps > 1:
            _say(_line(program, program.total))
    _say(f"{psutil.Process().memory_info().rss / 1e6:,.0f} MB resident in the end")
    found = list(measured().values())
    for snapshot in found:
        _say(f"{snapshot}, {snapshot.warmup:.3g} s until the first batches")
    for verdict in dict.fromkeys(one.verdict for one in found):
        if verdict in _ADVICE:
            _say(f"{verdict}: {_ADVICE[verdict]}")


def _say(text: str) -> None:
    messages().print(f"refluid: {text}", markup=False, soft_wrap=True)
