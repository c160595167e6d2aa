"""What steps take and fetch, as a script runs: what --log-dir writes and --watch shows."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refluid.engine.listening import RunCall

# A fetch of so many elements is a number for each replica.
_FEW = 64


@dataclass
class StepSums:
    """Sums over some steps of a program, in seconds. spans: that had a step before them."""

    steps: int = 0
    spans: int = 0
    inside: float = 0.0
    outside: float = 0.0
    fetched: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def means(self) -> dict[str, float]:
        """By name; milliseconds where it is time."""
        found = {"run ms": 1e3 * self.inside / max(1, self.steps)}
        if self.spans:
            found["between runs ms"] = 1e3 * self.outside / self.spans
        return found | {name: total / self.steps for name, total in self.fetched.items()}

    @property
    def period(self) -> float:
        """Seconds from the begin of a step to that of the next."""
        return self.inside / max(1, self.steps) + self.outside / max(1, self.spans)


@dataclass
class ProgramSteps:
    """One program with what it fetches. total: of all steps; ended: when the last one did."""

    label: str
    steps: int = 0
    recent: StepSums = field(default_factory=StepSums)
    total: StepSums = field(default_factory=StepSums)
    ended: float | None = None


class StepFigures:
    """Hears of every run. Another thread may look meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._programs: dict[Hashable, ProgramSteps] = {}

    def __call__(self, call: RunCall) -> list[Any]:
        """The listener of `engine.listening`."""
        start = time.perf_counter()
        results = call()
        end = time.perf_counter()
        numbers = dict(_numbers(call.names, results))
        with self._lock:
            program = self._programs.get(call.key)
            if program is None:
                label = f"program {len(self._programs)}"
                program = self._programs[call.key] = ProgramSteps(label)
            program.steps += 1
            for sums in (program.recent, program.total):
                _add(sums, start, end, program.ended)
                for name, value in numbers.items():
                    sums.fetched[name] += value
            program.ended = end
        return results

    def step(self, _loss: object) -> None:
        """A step of dygraph ended, as `listening.step_listener` says; its time is all of it."""
        end = time.perf_counter()
        with self._lock:
            loop = self._programs.setdefault("dygraph", ProgramSteps("dygraph"))
            loop.steps += 1
            if loop.ended is not None:
                for sums in (loop.recent, loop.total):
                    _add(sums, loop.ended, end, None)
            loop.ended = end

    def take(self) -> list[tuple[ProgramSteps, StepSums]]:
        """Programs that ran since this was last asked, and the sums of those steps."""
        with self._lock:
            found = [(one, one.recent) for one in self._programs.values() if one.recent.steps]
            for one, _ in found:
                one.recent = StepSums()
        return found

    def programs(self) -> list[ProgramSteps]:
        """All, in the order of their first steps."""
        with self._lock:
            return list(self._programs.values())


def _add(sums: StepSums, start: float, end: float, before: float | None) -> None:
    sums.steps += 1
    sums.inside += end - start
    if before is not None:
        sums.spans += 1
        sums.outside += start - before


def _numbers(names: tuple[str, ...], results: list[Any]) -> Iterator[tuple[str, float]]:
    for name, value in zip(names, results, strict=False):
        array = np.asarray(value)
        if array.dtype.kind == "f" and 0 < array.size <= _FEW:
            yield name, float(array.mean())
