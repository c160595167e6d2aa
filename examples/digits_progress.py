"""How training goes: a live bar on a terminal, else a plain line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, float, float, float], None]

PLAIN_SECONDS = 5.0
SMOOTHING = 0.95


class Meter:
    """Turns single steps into the line people read; loss and accuracy are smoothed."""

    def __init__(self) -> None:
        self.begin = time.perf_counter()
        self.steps = 0
        self.samples = 0
        self.loss = self.accuracy = self.waited = 0.0

    def add(self, samples: int, loss: float, accuracy: float, waited: float) -> None:
        self.steps += 1
        keep = min(SMOOTHING, 1 - 1 / self.steps)
        self.loss = keep * self.loss + (1 - keep) * loss
        self.accuracy = keep * self.accuracy + (1 - keep) * accuracy
        self.samples += samples
        self.waited = waited

    def __str__(self) -> str:
        seconds = max(time.perf_counter() - self.begin, 1e-9)
        return (
            f"{self.samples / seconds:6,.0f} digits/s  loss {self.loss:.3f}  "
            f"accuracy {self.accuracy:6.2%}  waiting for data {self.waited / seconds:4.0%}"
        )


@contextmanager
def progress_line(epoch: int, steps: int) -> Iterator[Report]:
    """A function to call after each step: (samples, loss, accuracy, seconds waited so far)."""
    with (_live if sys.stderr.isatty() else _plain)(epoch, steps) as report:
        yield report


@contextmanager
def _live(epoch: int, steps: int) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    meter = Meter()
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as progress:
        task = progress.add_task("", total=steps, epoch=epoch)

        def report(samples: int, loss: float, accuracy: float, waited: float) -> None:
            meter.add(samples, loss, accuracy, waited)
            if meter.steps % 10 == 0 or meter.steps == steps:
                progress.update(task, completed=meter.steps, description=str(meter))

        yield report


@contextmanager
def _plain(epoch: int, steps: int) -> Iterator[Report]:
    meter = Meter()
    last = meter.begin

    def report(samples: int, loss: float, accuracy: float, waited: float) -> None:
        nonlocal last
        meter.add(samples, loss, accuracy, waited)
        now = time.perf_counter()
        if now - last >= PLAIN_SECONDS or meter.steps == steps:
            last = now
            line = f"epoch {epoch}  step {meter.steps}/{steps}  {meter}"
            print(line, file=sys.stderr, flush=True)

    yield report
