"""How long steps take, and how much of it readers were waited for."""

from __future__ import annotations

import time

from refluid.feed.statistics import measured


def _waited() -> float:
    """Seconds that readers have been waited for so far."""
    return sum(one.waited + one.warmup for one in measured().values())


class StepTimer:
    """The times of steps since `tell` was last called."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self._reading = _waited()
        self._clear()

    def _clear(self) -> None:
        self._steps, self._seconds, self._samples = 0, 0.0, 0
        self._counted = True

    def step(self, samples: int | None) -> None:
        """A step is done, of so many samples."""
        now = time.perf_counter()
        self._steps, self._seconds = self._steps + 1, self._seconds + now - self._last
        self._last = now
        self._counted = self._counted and samples is not None
        self._samples += samples or 0

    def tell(self, unit: str | None) -> str:
        """Their means: waiting for a reader (where there is one) and in all, seconds; the rate."""
        reading = _waited()
        steps, seconds = max(self._steps, 1), max(self._seconds, 1e-9)
        waited, self._reading = max(reading - self._reading, 0.0), reading
        rate, kind = self._steps / seconds, "steps"
        if self._counted and self._samples:
            rate, kind = self._samples / seconds, unit or "samples"
        parts = [f"reader_cost: {waited / steps:.5f} s"] if waited else []
        parts += [f"batch_cost: {seconds / steps:.5f} s", f"ips: {rate:.3f} {kind}/s"]
        self._clear()
        return " " + " ".join(parts)
