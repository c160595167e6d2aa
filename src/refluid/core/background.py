"""Work beside the program that nobody waits for: it ends before the interpreter does.

Python stops a daemon thread as it next wants to run Python code, by unwinding its stack. Where
torch is on that stack (the compiler has tensors that Python computes), C++ aborts the process.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from refluid.core.whole_threads import interrupts_later

# Who waits for another program for longer than this is left to it: no C++ waits for that.
_PATIENCE = 1.0
# Callbacks of weak references swallow what is raised in them, so threads are asked once more.
_AGAIN = 0.1

_begun: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


class BackgroundThread(threading.Thread):
    """A thread that is left, by SystemExit in what it does, when the interpreter ends."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        super().__init__(target=work, name=name, daemon=True)

    def start(self) -> None:
        """Begins the work."""
        _begun.add(self)
        with interrupts_later():
            super().start()


@atexit.register
def end_all() -> None:
    """Has all of them end, and waits for those that can."""
    left = [one for one in _begun if one.is_alive()]
    until = time.monotonic() + _PATIENCE
    sys.unraisablehook = _unless_asked_for(sys.unraisablehook)
    while left and time.monotonic() < until:
        for one in left:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(one.ident or 0), ctypes.py_object(SystemExit)
            )
        for one in left:
            one.join(_AGAIN)
        left = [one for one in left if one.is_alive()]


def _unless_asked_for(otherwise: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Says nothing of a SystemExit that arrived within a callback, from which none can leave."""

    def say(unraisable: Any) -> None:
        if unraisable.exc_type is not SystemExit:
            otherwise(unraisable)

    return say
