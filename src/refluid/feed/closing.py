"""Ends readers and worker processes before the interpreter does."""

from __future__ import annotations

import atexit
import itertools
import multiprocessing.util  # noqa: F401  (its own exit handler must run after ours)
import os
import weakref
from typing import Protocol


class Closeable(Protocol):
    """Something with threads or processes."""

    def close(self) -> None:
        """Ends them."""


_numbers = itertools.count()
_open: weakref.WeakValueDictionary[int, Closeable] = weakref.WeakValueDictionary()


def close_at_exit(thing: Closeable) -> None:
    """Has `thing.close()` called when the interpreter ends, if it still exists then."""
    _open[next(_numbers)] = thing


@atexit.register
def close_all() -> None:
    """Closes everything that is open, in the order in which it was opened."""
    for thing in list(_open.values()):
        thing.close()


# A forked process has none of the threads, and must leave its parent's processes alone.
os.register_at_fork(after_in_child=_open.clear)
