"""Ends readers and worker processes when nobody needs them any more, and before the interpreter.

Python swallows a KeyboardInterrupt that arrives while it runs code for an object that goes away:
`__del__`, a callback, the `finally` of a generator. Interrupts only reach the main thread, so what
has to be done then is done by a thread of its own.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing.util  # noqa: F401  (its own exit handler must run after ours)
import os
import threading
import weakref
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import Any, Protocol

from refluid.core.whole_threads import begin

_LOGGER = logging.getLogger("refluid")


class Closeable(Protocol):
    """Something with threads or processes."""

    def close(self) -> None:
        """Ends them."""


class _Janitor:
    """The thread, and what it does when which object has gone."""

    def __init__(self) -> None:
        self.open: list[weakref.ref[Closeable]] = []
        self._gone: SimpleQueue[weakref.ref[Any]] = SimpleQueue()
        self._actions: dict[int, tuple[weakref.ref[Any], Callable[[], None]]] = {}
        self._starting = threading.Lock()
        self._running = False

    def expect(self, thing: Any, action: Callable[[], None]) -> None:
        """Has `action` called once `thing` has gone."""
        with self._starting:
            if not self._running:
                begin(threading.Thread(target=self._run, name="refluid closing", daemon=True))
                self._running = True
        # `put` is no Python code, so no interrupt can arrive within it.
        reference = weakref.ref(thing, self._gone.put)
        self._actions[id(reference)] = reference, action

    def _run(self) -> None:
        while True:
            known = self._actions.pop(id(self._gone.get()), None)
            if known is None:
                continue  # an interrupt came before it was known what to do
            _, action = known
            try:
                action()
            except Exception:
                _LOGGER.exception("closing what a reader left behind failed")
            del known, action


_janitor = _Janitor()


def when_gone(thing: Any, action: Callable[[], None]) -> None:
    """Has another thread call `action` when nothing refers to `thing` any more.

    The action must not refer to it. It isn't called at the interpreter's end.
    """
    _janitor.expect(thing, action)


def close_at_exit(thing: Closeable) -> None:
    """Has `thing.close()` called when the interpreter ends, if it still exists then."""
    _janitor.open = [one for one in _janitor.open if one() is not None]
    _janitor.open.append(weakref.ref(thing))


@atexit.register
def close_all() -> None:
    """Closes everything that is open, in the order in which it was opened."""
    for reference in _janitor.open:
        thing = reference()
        if thing is not None:
            thing.close()


def _new_janitor() -> None:
    global _janitor
    _janitor = _Janitor()


# A forked process has none of the threads, and must leave its parent's processes alone.
os.register_at_fork(after_in_child=_new_janitor)


class ClosingIterator:
    """The items of a generator, which is closed by another thread where it is left early."""

    def __init__(self, items: Generator[Any, None, None]) -> None:
        self._items = items
        when_gone(self, items.close)

    def __iter__(self) -> ClosingIterator:
        return self

    def __next__(self) -> Any:
        return next(self._items)

    def close(self) -> None:
        """Closes the generator now."""
        self._items.close()
