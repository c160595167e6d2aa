"""Ctrl-C: for tests in which it must arrive, whatever the shell that started them did with it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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
