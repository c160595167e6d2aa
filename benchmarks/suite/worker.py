"""One rival in a process of its own, told what to do over a pipe.

Each line of stdin is a request in JSON with the name of a method of `Worker` under "do"; each gets
one line of answer, {"found": ...} or {"error": "..."}. Whatever frameworks print goes to stderr.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suite.sides.side import CLOCKS, Options, Side, make
from benchmarks.suite.workloads import WORKLOADS
from refluid.measure.timing import Feed, no_collection

FEEDS, WEIGHTS = "feeds.npz", "weights.npz"
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Worker:
    """`build` comes first; the weights of the first side that is built are saved for the others."""

    side: Side

    def build(self, kind: str, workload: str, options: dict[str, Any], folder: str) -> Any:
        work, place = WORKLOADS[workload], Path(folder)
        feeds = read_feeds(place / FEEDS)
        importlib.import_module(f"benchmarks.suite.sides.{kind}_side")
        self.base = _memory("VmRSS")
        _forget_peak()
        begin = time.perf_counter()
        saved = place / WEIGHTS
        weights = dict(np.load(saved)) if saved.exists() else None
        self.side = make(kind, work, Options(**options), weights)
        seconds = time.perf_counter() - begin
        if weights is None:
            np.savez(saved, **self.side.weights())
        self.clock = CLOCKS[options["clock"]]
        self.feeds = [self.side.prepare(feed) for feed in feeds]
        self.turn = 0
        return {"seconds": seconds, "versions": self.side.versions()}

    def losses(self, count: int) -> Any:
        """Losses of `count` steps on the first batch, and how long the first one took."""
        begin = time.perf_counter()
        found = [self.side.step(self.feeds[0])]
        seconds = time.perf_counter() - begin
        found += [self.side.step(self.feeds[0]) for _ in range(count - 1)]
        return {"losses": found, "first_step": seconds}

    def warm(self, seconds: float, least: int, most: int) -> float:
        """Steps for so long, once nothing is compiled any more; the fastest's seconds."""
        self._timed()
        while not self.side.is_settled():
            self._timed()
        end, times = time.perf_counter() + seconds, []
        while len(times) < least or (len(times) < most and time.perf_counter() < end):
            times.append(self._timed())
        return min(times)

    def block(self, steps: int) -> list[float]:
        """Seconds of each step, after one that brings this rival's weights into the caches."""
        with no_collection():
            self._timed()
            return [self._timed() for _ in range(steps)]

    def _timed(self) -> float:
        feed = self.feeds[self.turn % len(self.feeds)]
        self.turn += 1
        begin = self.clock()
        self.side.step(feed)
        return self.clock() - begin

    def peak(self) -> int:
        """Most bytes held since the framework was imported, beyond those held then."""
        own = self.side.peak()
        return _memory("VmHWM") - self.base if own is None else own

    def needs(self) -> dict[str, float]:
        return vars(self.side.needs(self.feeds[0]))

    def shares(self) -> dict[str, float]:
        return self.side.shares(self.feeds[0])

    def ceiling(self, device: str, half: str, clock: str) -> float:
        """Floating-point operations that the machine does in a second, at best, as measured now.

        Asked of a process of its own, since the matrices take memory.
        """
        import torch

        from refluid.measure.ceilings import matrix_rate

        return matrix_rate(torch.device(device), getattr(torch, half or "float32"), CLOCKS[clock])

    def copied(self, device: str, held: int) -> float:
        """Bytes read and written in a second by copies within so many bytes."""
        import torch

        from refluid.measure.ceilings import copy_rate

        return copy_rate(torch.device(device), held)


def read_feeds(path: Path) -> list[Feed]:
    found: dict[int, Feed] = {}
    with np.load(path) as saved:
        for key in saved.files:
            number, _, name = key.partition("/")
            found.setdefault(int(number), {})[name] = saved[key]
    return [found[number] for number in sorted(found)]


def write_feeds(path: Path, feeds: list[Feed]) -> None:
    named = {f"{i}/{name}": value for i, feed in enumerate(feeds) for name, value in feed.items()}
    np.savez(path, **named)  # type: ignore[arg-type]


def _memory(field: str) -> int:
    """Bytes of this process; 0 where the system doesn't tell."""
    text = STATUS.read_text() if STATUS.exists() else ""
    lines = (line.split() for line in text.splitlines())
    return next((int(words[1]) * 1024 for words in lines if words[0] == f"{field}:"), 0)


def _forget_peak() -> None:
    gc.collect()
    if CLEAR.exists():
        CLEAR.write_text("5")


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"found": getattr(worker, request.pop("do"))(**request)}
        except Exception as error:
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
