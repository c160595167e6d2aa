"""`refluid run --log-dir DIR`: what steps take and what they fetch, as TensorBoard shows it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from refluid.cli.tensorboard_file import ScalarFile
from refluid.engine.listening import RunCall, heard_by
from refluid.feed.statistics import ReaderStatistics, Snapshot, measured

_PERIOD = 1.0
# A fetch of so many elements is a number for each replica.
_FEW = 64


@contextmanager
def logging_scalars(folder: Path, period: float = _PERIOD) -> Iterator[None]:
    """Within the block each program's steps are noted; every `period` seconds a mean is written."""
    file = ScalarFile(folder)
    scalars = _Scalars(file, period)
    try:
        with heard_by(scalars):
            yield
    finally:
        scalars.write()
        file.close()


class _Steps:
    """One program's steps since something was written of them."""

    def __init__(self, label: str) -> None:
        self.label, self.step = label, 0
        self.inside: list[float] = []
        self.outside: list[float] = []
        self.fetched: defaultdict[str, list[float]] = defaultdict(list)
        self.ended: float | None = None

    def values(self) -> dict[str, float]:
        """The means."""
        found = {f"{self.label}/run ms": 1e3 * float(np.mean(self.inside))}
        if self.outside:
            found[f"{self.label}/between runs ms"] = 1e3 * float(np.mean(self.outside))
        for name, values in self.fetched.items():
            found[f"{self.label}/{name}"] = float(np.mean(values))
        self.inside, self.outside = [], []
        self.fetched.clear()
        return found


class _Scalars:
    """Hears of every run."""

    def __init__(self, file: ScalarFile, period: float) -> None:
        self._file, self._period = file, period
        self._programs: dict[tuple[int, str], _Steps] = {}
        self._readers: dict[ReaderStatistics, Snapshot] = {}
        self._next = time.perf_counter() + period

    def __call__(self, call: RunCall) -> list[Any]:
        key = id(call.program), repr(call.fetches)
        steps = self._programs.get(key)
        if steps is None:
            steps = self._programs[key] = _Steps(f"program {len(self._programs)}")
        start = time.perf_counter()
        results = call()
        end = time.perf_counter()
        if steps.ended is not None:
            steps.outside.append(start - steps.ended)
        steps.inside.append(end - start)
        steps.ended = end
        steps.step += 1
        for name, value in zip(_names(call.fetches), results, strict=False):
            array = np.asarray(value)
            if array.dtype.kind == "f" and 0 < array.size <= _FEW:
                steps.fetched[name].append(float(array.mean()))
        if end >= self._next:
            self.write()
            self._next = end + self._period
        return results

    def write(self) -> None:
        """Writes what there is."""
        for steps in self._programs.values():
            if steps.inside:
                self._file.add(steps.step, {**steps.values(), **self._others()})

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


def _names(fetches: Any) -> list[str]:
    listed = fetches if isinstance(fetches, list | tuple) else [fetches]
    return [one if isinstance(one, str) else str(getattr(one, "name", one)) for one in listed]
