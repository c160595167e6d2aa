"""`refluid run --log-dir DIR`: what steps take and what they fetch, as TensorBoard shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from refluid.cli.step_figures import StepFigures
from refluid.cli.tensorboard_file import ScalarFile
from refluid.engine.listening import RunCall, heard_by
from refluid.feed.statistics import ReaderStatistics, Snapshot, measured

_PERIOD = 1.0


@contextmanager
def logging_scalars(folder: Path, period: float = _PERIOD) -> Iterator[None]:
    """Within the block each program's steps are noted; every `period` seconds a mean is written."""
    file = ScalarFile(folder)
    scalars = _Scalars(file, period)
    try:
        with heard_by(scalars, steps=scalars.step):
            yield
    finally:
        scalars.write()
        file.close()


class _Scalars:
    """Hears of every run, and writes now and then."""

    def __init__(self, file: ScalarFile, period: float) -> None:
        self._file, self._period = file, period
        self._figures = StepFigures()
        self._readers: dict[ReaderStatistics, Snapshot] = {}
        self._next = time.perf_counter() + period

    def __call__(self, call: RunCall) -> list[Any]:
        results = self._figures(call)
        self._write_now_and_then()
        return results

    def step(self, loss: object) -> None:
        """A step of dygraph ended."""
        self._figures.step(loss)
        self._write_now_and_then()

    def _write_now_and_then(self) -> None:
        if time.perf_counter() >= self._next:
            self.write()
            self._next = time.perf_counter() + self._period

    def write(self) -> None:
        """Writes what there is."""
        for program, sums in self._figures.take():
            values = {f"{program.label}/{name}": value for name, value in sums.means().items()}
            self._file.add(program.steps, values | self._others())

    def _others(self) -> dict[str, float]:
        found = {"process/resident MB": psutil.Process().memory_info().rss / 1e6}
        now = measured()
        for reader, snapshot in now.items():
            earlier = self._readers.get(reader)
            recent = snapshot.since(earlier) if earlier else snapshot
            found[f"{snapshot.name}/waited"] = recent.waiting_share
            found[f"{snapshot.name}/queue"] = recent.depth
        self._readers = now
        return found
