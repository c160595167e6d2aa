"""Threads take short turns in Python while a reader's generator runs in one of them.

A kernel that the model called has to wait for the interpreter when it is done: by default 5 ms
where a generator is computing, however short the kernel was.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 1e-4


class _Turns:
    """The switch interval as it was before the first of several blocks, and who is in one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = self._ours = 0.0

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, SECONDS))
                self._ours = sys.getswitchinterval()
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and sys.getswitchinterval() == self._ours:
                sys.setswitchinterval(self._before)

    def forget(self) -> None:
        """In a forked process, which has none of the threads and perhaps a lock nobody opens."""
        if self._inside:
            sys.setswitchinterval(self._before)
        self._lock, self._inside = threading.Lock(), 0


_turns = _Turns()
os.register_at_fork(after_in_child=_turns.forget)


@contextmanager
def short_turns() -> Iterator[None]:
    """Within the block `sys.getswitchinterval()` is at most 0.1 ms.

    Afterwards it is as before, unless somebody else changed it meanwhile.
    """
    _turns.enter()
    try:
        yield
    finally:
        _turns.leave()
