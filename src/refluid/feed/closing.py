"""Ends readers and worker processes before the interpreter does."""

from __future__ import annotations

import atexit
import multiprocessing.util  # noqa: F401  (its own exit handler must run after ours)
import weakref
from typing import Protocol


class Closeable(Protocol):
    """Something with threads or processes."""

    def close(self) -> None: ...


_open: weakref.WeakSet[Closeable] = weakref.WeakSet()


def close_at_exit(thing: Closeable) -> None:
    """Has `thing.close()` called when the interpreter ends, if it still exists then."""
    _open.add(thing)


@atexit.register
def close_all() -> None:
    """Closes everything that is open."""
    for thing in list(_open):
        thing.close()
