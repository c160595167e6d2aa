"""What a trainer tells its servers with its heartbeats: how much, how fast, how far behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from refluid.pserver.messages import MalformedMessage


class TrainerFigures(NamedTuple):
    """Since a trainer began: steps and rows of their batches, calls and the seconds that they took.

    seconds: how long it trains. waiting: steps whose gradients are not with the servers yet.
    behind: steps of its own that its parameters lack.
    """

    steps: float = 0.0
    rows: float = 0.0
    seconds: float = 0.0
    pulls: float = 0.0
    pull_seconds: float = 0.0
    pushes: float = 0.0
    push_seconds: float = 0.0
    waiting: float = 0.0
    behind: float = 0.0


NO_FIGURES = TrainerFigures()


def read_figures(array: np.ndarray[Any, Any]) -> TrainerFigures:
    """Those of a message. MalformedMessage where they are none."""
    if array.shape != (len(NO_FIGURES),) or array.dtype != np.float64:
        raise MalformedMessage(f"a trainer's figures are float64 [{len(NO_FIGURES)}]")
    if not np.isfinite(array).all():
        raise MalformedMessage("a trainer's figures are finite")
    return TrainerFigures(*array.tolist())


class FigureBook:
    """Counts what a trainer does. For several threads.

    lag: gives how many steps wait, and how many its parameters are behind.
    """

    def __init__(self) -> None:
        self.lag: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._lock = threading.Lock()
        self._steps = self._rows = 0
        self._begun = 0.0
        self._calls = {"pull": 0, "push": 0}
        self._seconds = {"pull": 0.0, "push": 0.0}

    def step(self, rows: int) -> None:
        """A step on so many rows was made."""
        with self._lock:
            self._begun = self._begun or time.monotonic()
            self._steps += 1
            self._rows += rows

    def timing(self, what: str) -> AbstractContextManager[None]:
        """The block is a `pull` or a `push`."""
        return _Timing(self, what)

    def took(self, what: str, seconds: float) -> None:
        """A `pull` or a `push` took so long."""
        with self._lock:
            self._calls[what] += 1
            self._seconds[what] += seconds

    def now(self) -> TrainerFigures:
        """The figures as they are."""
        waiting, behind = self.lag()
        with self._lock:
            calls, seconds = self._calls, self._seconds
            return TrainerFigures(
                self._steps,
                self._rows,
                time.monotonic() - self._begun if self._begun else 0.0,
                calls["pull"],
                seconds["pull"],
                calls["push"],
                seconds["push"],
                waiting,
                behind,
            )

    def array(self) -> tuple[str, np.ndarray[Any, Any]]:
        """The same, as an array of a message."""
        return "figures", np.array(self.now(), np.float64)


class _Timing(AbstractContextManager[None]):
    def __init__(self, book: FigureBook, what: str) -> None:
        self._book, self._what = book, what

    def __enter__(self) -> None:
        self._begun = time.perf_counter()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._book.took(self._what, time.perf_counter() - self._begun)
