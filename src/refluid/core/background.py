"""Work beside the program that nobody waits for: it ends before the interpreter does.

Python stops a daemon thread as it next wants to run Python code, by unwinding its stack. Where
torch is on that stack (the compiler has tensors that Python computes), C++ aborts the process.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import weakref
from collections.abc import Callable

from refluid.core.whole_threads import interrupts_later

# Who waits for another program for longer than this is left to it: no C++ waits for that.
_PATIENCE = 1.0

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
    for one in left:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(one.ident or 0), ctypes.py_object(SystemExit)
        )
    for one in left:
        one.join(_PATIENCE)
