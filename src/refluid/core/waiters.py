"""`Waiters`: threads that wait for what a lock guards, and that Ctrl-C may interrupt anywhere."""

from __future__ import annotations

import threading


class Waiters:
    """Threads that wait until they are woken. They wait without the lock that guards the state.

    A thread in `threading.Condition.wait` that is interrupted between being notified and having
    its lock again leaves the `with` block of a lock that it doesn't hold: RuntimeError takes the
    place of KeyboardInterrupt. Here the loop is the caller's, and nothing can be left halfway:

        while True:
            with lock:
                if there_is_something:
                    return take()
                woken = waiters.join()
            woken.acquire()
    """

    def __init__(self) -> None:
        self._waiting: list[threading.Lock] = []

    def join(self) -> threading.Lock:
        """What the caller acquires to wait, after it has released the lock that it holds now."""
        woken = threading.Lock()
        woken.acquire()
        self._waiting.append(woken)
        return woken

    def wake(self) -> None:
        """Wakes all; called with the lock held. One that was interrupted is forgotten."""
        while self._waiting:
            # In this order, so that an interrupt between the two leaves nobody asleep.
            if self._waiting[-1].locked():
                self._waiting[-1].release()
            self._waiting.pop()
