"""`ProgBarLogger`: losses and metrics on the screen, as a bar or a line each time."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from refluid.paddle.hapi.callbacks import Callback, Logs

_WIDTH = 30  # of the bar
_EXPLAINED = (
    "The loss value printed in the log is the current step, and the metric is the average value "
    "of previous steps."
)


def shown(value: Any) -> str:
    """A number, or each of a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return " ".join(map(shown, value))
    number = float(value)
    return f"{number:.4f}" if abs(number) > 1e-3 or number == 0 else f"{number:.4e}"


def per_step(seconds: float) -> str:
    """How long a step takes."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.0f}{unit}/step"
    return f"{seconds * 1e6:.0f}us/step"


def remaining(seconds: float) -> str:
    """The time that is left, as `5s`, `1:05` or `1:00:05`."""
    minutes, rest = divmod(int(seconds), 60)
    if not minutes:
        return f"{rest}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Progress:
    """What is printed of the steps of an epoch. steps: how many there are, None if unknown."""

    def __init__(self, steps: int | None, verbose: int) -> None:
        self._steps, self._verbose = steps, verbose
        self._start, self._width = time.time(), 0

    def show(self, step: int, values: Sequence[tuple[str, Any]]) -> None:
        """Prints how far it is, and values by name."""
        seconds = (time.time() - self._start) / max(step, 1)
        count = "" if self._steps is None else f"/{self._steps}"
        place = f"step {step:>{len(count) - 1 if count else 0}d}{count}"
        parts = [f"{name}: {shown(value)}" for name, value in values]
        if self._verbose != 1:
            print(" - ".join([place, *parts, per_step(seconds)]))
            return
        if self._steps is not None:
            place += " " + self._bar(step)
            if step < self._steps:
                parts.append(f"ETA: {remaining(seconds * (self._steps - step))}")
        line = " - ".join([place, *parts, per_step(seconds)])
        sys.stdout.write("\b" * self._width + line.ljust(self._width))
        self._width = max(self._width, len(line))
        if step == self._steps:
            sys.stdout.write("\n")
        sys.stdout.flush()

    def _bar(self, step: int) -> str:
        assert self._steps is not None
        done = int(_WIDTH * step / self._steps)
        if step >= self._steps:
            return f"[{'=' * _WIDTH}]"
        arrow = "=" * (done - 1) + ">" if done else ""
        return f"[{arrow.ljust(_WIDTH, '.')}]"


class ProgBarLogger(Callback):
    """Prints losses and metrics every `log_freq` steps, and at the end of each epoch.

    verbose: 0 nothing, 1 a bar, 2 a line each time, 3 with the time that reading and steps took.
    """

    def __init__(self, log_freq: int = 1, verbose: int = 2) -> None:
        super().__init__()
        self.log_freq, self.verbose = log_freq, verbose
        self._progress = Progress(None, verbose)
        self._steps: int | None = None
        self._samples = 0
        self._clock, self._explains = Clock(), False

    def on_train_begin(self, logs: Logs = None) -> None:
        """Says what the numbers are."""
        self._explains = self.verbose > 0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Says which epoch it is."""
        if self.verbose:
            if self._explains:
                print(_EXPLAINED)
                self._explains = False
            print(f"Epoch {epoch + 1}/{self.params['epochs']}")
        self._begin(self.params["steps"])

    def _begin(self, steps: int | None) -> None:
        self._steps, self._samples = steps, 0
        self._progress, self._clock = Progress(steps, self.verbose), Clock()

    def _values(self, logs: Logs) -> list[tuple[str, Any]]:
        given = logs or {}
        found = [(name, given[name]) for name in self.params["metrics"] if name in given]
        return [*found, *self._clock.values()] if self.verbose == 3 else found

    def _show(self, step: int, logs: Logs) -> None:
        """After a step: prints where it is its turn, and always the last one."""
        if self.verbose and ((step + 1) % self.log_freq == 0 or step + 1 == self._steps):
            self._progress.show(step + 1, self._values(logs))
            self._clock = Clock()

    def on_train_batch_begin(self, step: int, logs: Logs = None) -> None:
        """The batch is there."""
        self._clock.read()

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        """Prints, where it is its turn."""
        self._clock.stepped((logs or {}).get("batch_size", 0))
        self._show(step, logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Prints the last step of an epoch of unknown length."""
        if self.verbose and self._steps is None and logs:
            self._progress.show(logs["step"] + 1, self._values(logs))

    def on_eval_begin(self, logs: Logs = None) -> None:
        """Says that it begins."""
        self._begin((logs or {}).get("steps"))
        if self.verbose:
            print("Eval begin...")

    def on_eval_batch_end(self, step: int, logs: Logs = None) -> None:
        """Prints, where it is its turn."""
        self._samples += (logs or {}).get("batch_size", 0)
        self._show(step, logs)

    def on_eval_end(self, logs: Logs = None) -> None:
        """Says how many samples there were."""
        if self.verbose:
            print(f"Eval samples: {self._samples}")

    def on_predict_begin(self, logs: Logs = None) -> None:
        """Says that it begins."""
        self._begin((logs or {}).get("steps"))
        if self.verbose:
            print("Predict begin...")

    def on_predict_batch_end(self, step: int, logs: Logs = None) -> None:
        """Prints, where it is its turn."""
        self._samples += (logs or {}).get("batch_size", 0)
        self._show(step, None)

    def on_predict_end(self, logs: Logs = None) -> None:
        """Says how many samples there were."""
        if self.verbose:
            print(f"Predict samples: {self._samples}")


class Clock:
    """How long reading and steps took since it was made."""

    def __init__(self) -> None:
        self._end = time.perf_counter()
        self._reading = self._all = 0.0
        self._count = self._samples = 0

    def read(self) -> None:
        """A batch was read."""
        self._reading += time.perf_counter() - self._end

    def stepped(self, samples: int) -> None:
        """A step was made."""
        now = time.perf_counter()
        self._all, self._end = self._all + now - self._end, now
        self._count += 1
        self._samples += samples

    def values(self) -> list[tuple[str, str]]:
        """Means of both, and samples per second."""
        count, whole = max(self._count, 1), max(self._all, 1e-9)
        return [
            ("avg_reader_cost", f"{self._reading / count:.5f} sec"),
            ("avg_batch_cost", f"{self._all / count:.5f} sec"),
            ("ips", f"{self._samples / whole:.5f} samples/sec"),
        ]
