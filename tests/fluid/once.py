"""Small networks in programs of their own, run once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from refluid import fluid
from refluid.core import names

L = fluid.layers
Array = np.ndarray[Any, Any]


@contextmanager
def own_programs() -> Iterator[None]:
    """New default programs, names counted from 0, and an empty scope."""
    with (
        names.guard(),
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.scope_guard(fluid.core.Scope()),
    ):
        yield


def run(fetch: Any, **feed: Any) -> list[Array]:
    """Runs the default programs once; what is fetched, without LoD."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found = exe.run(feed=feed, fetch_list=fetch, return_numpy=False)
    return [np.array(one) for one in found]


def fed(*shape: int, name: str = "x", lod_level: int = 0) -> fluid.Variable:
    """A fed float32 variable that has a gradient."""
    var = fluid.data(name, list(shape), "float32", lod_level=lod_level)
    var.stop_gradient = False
    return var


def constant(value: float, dtype: str = "float32") -> fluid.Variable:
    """A constant of shape (1,)."""
    return L.fill_constant([1], dtype, value)


def loss(var: fluid.Variable) -> fluid.Variable:
    """The sum of squares."""
    return L.reduce_sum(L.square(var))


def values(*shape: int, seed: int = 0) -> Array:
    """Random float32 numbers between -1 and 1."""
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")
