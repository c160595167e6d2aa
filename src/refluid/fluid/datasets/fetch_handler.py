"""What a user wants to be told of variables while a dataset is trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
