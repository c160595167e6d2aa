"""The thread that looks at variables every few seconds while a dataset is trained on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from refluid.core.whole_threads import JoinedThread

_LOGGER = logging.getLogger("refluid")


class Handler(Protocol):
    """var_dict: key -> variable. `handler` is called with their values every `period_secs`."""

    var_dict: Mapping[str, Any]
    period_secs: float

    def handler(self, res_dict: Mapping[str, Any]) -> None:
        """Is given the present values by key."""


class Monitor:
    """The thread that calls a handler. values: gives the present arrays by key."""

    def __init__(self, handler: Handler, values: Callable[[], dict[str, Any]]) -> None:
        self._handler, self._values = handler, values
        self._ended = threading.Lock()
        self._ended.acquire()
        self._thread = JoinedThread(self._run, name="refluid fetch handler")

    def start(self) -> None:
        """Begins to call it; `stop` is to follow, also where an interrupt comes first."""
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.acquire(timeout=max(0, self._handler.period_secs)):
            try:
                self._handler.handler(self._values())
            except Exception:
                _LOGGER.exception("the fetch handler raised an exception; training goes on")

    def stop(self) -> None:
        """Ends the thread, after the call that it may be in."""
        self._ended.release()
        self._thread.join()
