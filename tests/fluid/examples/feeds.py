"""Variables that the examples feed or hold.

Each module beside this one has a table of short programs, keyed by the recording of the same
program by Fluid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refluid import fluid

L = fluid.layers
Build = Callable[[], Any]


def x(*shape: int, name: str = "x", dtype: str = "float32") -> fluid.Variable:
    """A fed variable whose data are checked."""
    return fluid.data(name=name, shape=list(shape), dtype=dtype)


def free(*shape: int, name: str = "x", dtype: str = "float32") -> fluid.Variable:
    """A fed variable whose data are not checked."""
    return L.data(name=name, shape=list(shape), dtype=dtype, append_batch_size=False)


def pair(dtype: str, *shapes: tuple[int, ...]) -> tuple[Any, Any]:
    """Fed variables `x` and `y`; of one shape, if only one is given."""
    return x(*shapes[0], dtype=dtype), x(*shapes[-1], name="y", dtype=dtype)


def sides() -> list[fluid.Variable]:
    """What ranking losses take."""
    return [x(-1, 1, name=name) for name in ("label", "left", "right")]


def ints(*values: Any) -> fluid.Variable:
    """An int32 constant of the program."""
    return L.assign(np.array(values, dtype="int32"))
