"""Ctrl-C: for tests in which it must arrive, whatever the shell that started them did with it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

_PATIENCE = 60.0


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block Ctrl-C interrupts this process, and those that it starts.

    A shell has it ignored in what it runs in the background, and processes pass that on.
    """
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


@contextmanager
def interrupted_in(function: str) -> Iterator[None]:
    """The block is interrupted as soon as it is in that function, and must raise that."""
    main = threading.main_thread().ident
    assert main == threading.get_ident()
    watching = threading.Thread(target=_interrupt, args=(main, function), daemon=True)
    with interruptible(), pytest.raises(KeyboardInterrupt):
        watching.start()
        yield
    watching.join()


def _interrupt(thread: int, function: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if _within(sys._current_frames().get(thread), function):
            time.sleep(0.05)  # from the function's begin to where it waits
            break
        time.sleep(0.001)
    signal.pthread_kill(thread, signal.SIGINT)


def _within(frame: FrameType | None, function: str) -> bool:
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame is not None


class InterruptedAt:
    """Raises KeyboardInterrupt in the main thread's call number `at`, of those in `parts` of paths.

    That is where Python looks for signals: as a function begins, or after one written in C, such as
    the making of an object. Where interrupts are put off, after that.
    """

    def __init__(self, at: int, parts: Sequence[str] = ("",)) -> None:
        self._left, self._parts = at, parts
        self.arrived = False

    def __enter__(self) -> InterruptedAt:
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        made = event == "return" and frame.f_code.co_name == "__init__"
        if self.arrived or not (made or event in ("call", "c_return")):
            return
        name = frame.f_code.co_filename
        if name != __file__ and any(part in name for part in self._parts):
            self._left -= 1
            if self._left < 0 and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                self.arrived = True
                raise KeyboardInterrupt


def interrupted_at_each_call(
    work: Callable[[], object], step: int = 1, parts: Sequence[str] = ("",)
) -> Iterator[int]:
    """Calls it once for every call in it, interrupted there; then yields which.

    step: for every so many calls. parts: in files of such paths alone.
    Whatever else than KeyboardInterrupt comes out is raised.
    """
    at, arrived = 0, True
    with interruptible():
        while arrived:
            with InterruptedAt(at, parts) as interrupted:
                try:
                    work()
                except KeyboardInterrupt:
                    assert interrupted.arrived
            arrived = interrupted.arrived
            if arrived:
                yield at
            at += step


class Lingering:
    """Work for a thread: ends a moment after `end` is called, and tells whether it has."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self.over = False

    def end(self) -> None:
        """Asks it to end."""
        self._asked.set()

    def __call__(self) -> None:
        assert self._asked.wait(_PATIENCE)
        time.sleep(0.3)
        self.over = True
