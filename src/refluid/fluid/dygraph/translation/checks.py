"""`assert` on a tensor: an operator that looks at its value in every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refluid.fluid.dygraph.translation.conditions import as_bool
from refluid.fluid.dygraph.translation.declaring import declaring
from refluid.fluid.dygraph.translation.values import is_tensor, static
from refluid.fluid.functions.io.python_functions import py_func


def check(value: Any, message: Callable[[], Any] | None) -> None:
    """`assert value, message`."""
    value = static(value)
    if not is_tensor(value) or declaring() is None:
        if not value:
            raise AssertionError(*([] if message is None else [message()]))
        return
    said = "" if message is None else message()
    shown = "" if is_tensor(said) else f": {said}" if said else ""

    def require(found: Any) -> None:
        if not np.array(found).all():
            raise AssertionError(f"an assert on a tensor doesn't hold{shown}")

    py_func(require, as_bool(value), None)
