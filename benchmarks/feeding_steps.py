"""Does a reader that needs half the step's time per batch slow the step down?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from refluid import fluid

WIDTH, ROWS = 1024, 256
Work = Callable[[float], None]


def wait(seconds: float) -> None:
    """As a disk or a network keeps a reader waiting."""
    time.sleep(seconds)


def compute(seconds: float) -> None:
    """As NumPy keeps a processor busy."""
    values = np.random.default_rng(0).random(50_000)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        np.sort(values)


def count(seconds: float) -> None:
    """As a loop in Python keeps a processor and the interpreter busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(1000))


class Training:
    """A network of products, trained with or without a reader."""

    def __init__(self, reads: bool, **options: Any) -> None:
        self.main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            data = fluid.data("x", [None, WIDTH])
            if reads:
                self.loader = fluid.io.DataLoader.from_generator(
                    [data], 8, iterable=False, **options
                )
            hidden = data
            for _ in range(4):
                hidden = fluid.layers.fc(hidden, WIDTH, act="relu")
            self.loss = fluid.layers.mean(hidden)
            fluid.optimizer.SGD(1e-4).minimize(self.loss)
        self._executor = fluid.Executor(fluid.CPUPlace())
        self._scope = fluid.Scope()
        self._executor.run(startup, scope=self._scope)

    def step(self, feed: dict[str, Any] | None = None) -> float:
        """Seconds of one step."""
        start = time.perf_counter()
        self._executor.run(self.main, feed=feed, fetch_list=[self.loss], scope=self._scope)
        return time.perf_counter() - start


def batch() -> Any:
    return np.random.default_rng(0).standard_normal((ROWS, WIDTH), np.float32)


def hidden(work: Work, blocks: int, steps: int, **options: Any) -> list[tuple[float, float]]:
    """Median step of each block: with the reader, and with the same batch fed each time."""
    alone, reading = Training(False), Training(True, **options)
    fed = {"x": batch()}
    usual = statistics.median(alone.step(fed) for _ in range(3 * steps))

    def batches() -> Iterator[Any]:
        made = batch()
        while True:
            work(usual / 2)
            yield [made]

    reading.loader.set_batch_generator(batches)
    found = []
    for _ in range(blocks):
        reading.loader.start()
        reading.step()
        times = [reading.step() for _ in range(steps)]
        reading.loader.reset()
        found.append((statistics.median(times), statistics.median(alone.step(fed) for _ in times)))
    return found
