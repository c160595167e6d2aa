"""`FetchHandler`: looks at variables every few seconds while a dataset is trained on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

_LOGGER = logging.getLogger("refluid")


class FetchHandler:
    """Subclass it, and give it to `Executor.train_from_dataset` as `fetch_handler`.

    var_dict: any key -> variable. `handler` is called every `period_secs` seconds with each key
    and the variable's present array, None where it has none yet.
    """

    def __init__(self, var_dict: Mapping[str, Any] | None = None, period_secs: float = 60) -> None:
        assert var_dict is not None, "FetchHandler needs a dict of variables"
        self.var_dict = var_dict
        self.period_secs = period_secs

    def handler(self, res_dict: Mapping[str, Any]) -> None:
        """Called with the arrays; prints them unless a subclass does something else."""
        for key, value in res_dict.items():
            if isinstance(value, list | tuple) or hasattr(value, "shape"):
                print(f"{key}[0]: {value[0] if len(value) else value} ", flush=True)

    @staticmethod
    def help() -> None:
        """Prints an example."""
        print(_EXAMPLE)


_EXAMPLE = """
class FetchHandlerExample(FetchHandler):
    def handler(self, res_dict):
        print(res_dict["auc"])
        print("auc: {}, {}".format(res_dict["auc"], time.ctime()))

auc = Variable()
exe.train_from_dataset(
    program, dataset, fetch_handler=FetchHandlerExample({"auc": auc}, period_secs=60))
"""


class Monitor:
    """The thread that calls a handler. values: gives the present arrays by key."""

    def __init__(self, handler: FetchHandler, values: Callable[[], dict[str, Any]]) -> None:
        self._handler, self._values = handler, values
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refluid fetch handler", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._handler.period_secs):
            try:
                self._handler.handler(self._values())
            except Exception:
                _LOGGER.exception("the fetch handler raised an exception; training goes on")

    def stop(self) -> None:
        """Ends the thread, after the call that it may be in."""
        self._ended.set()
        self._thread.join()
