"""A small network, written with Fluid's names and with Paddle 2's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from refluid import fluid
from refluid.core import names
from refluid.core.scope import Scope
from refluid.ir.ambient import reset_name_scopes
from refluid.paddle import static

STEPS = 6


@contextmanager
def fresh() -> Iterator[Any]:
    """Programs, names and a scope of their own; both programs have a seed."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    reset_name_scopes()
    with fluid.program_guard(main, startup), names.guard(), fluid.scope_guard(Scope()):
        yield main, startup


def batches(count: int = STEPS) -> list[dict[str, Any]]:
    """Images and labels that follow from them."""
    draw = np.random.RandomState(0)
    found = []
    for _ in range(count):
        x = draw.rand(8, 1, 6, 6).astype("float32")
        found.append(
            {"x": x, "y": (x.sum((1, 2, 3), keepdims=False) > 18).astype("int64")[:, None]}
        )
    return found


def of_fluid() -> Any:
    """The loss, as Fluid's programs have it."""
    x = fluid.data("x", [None, 1, 6, 6], "float32")
    y = fluid.data("y", [None, 1], "int64")
    hidden = fluid.layers.conv2d(x, 4, 3, act="relu")
    hidden = fluid.layers.batch_norm(hidden)
    guess = fluid.layers.fc(hidden, 3)
    return fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(guess, y))


def of_paddle() -> Any:
    """The loss, as Paddle 2's programs have it."""
    x = static.data("x", [None, 1, 6, 6], "float32")
    y = static.data("y", [None, 1], "int64")
    hidden = static.nn.conv2d(x, 4, 3, act="relu")
    hidden = static.nn.batch_norm(hidden)
    guess = static.nn.fc(hidden, 3)
    return fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(guess, y))


def losses(build: Callable[[], Any], optimizer: Callable[[], Any], run: Any = None) -> list[Any]:
    """What training gives for each step."""
    with fresh() as (main, startup):
        loss = build()
        optimizer().minimize(loss)
        exe = static.Executor("cpu")
        exe.run(startup)
        found = []
        for batch in batches():
            found.append(exe.run(main, feed=batch, fetch_list=[loss])[0])
            if run is not None:
                run(exe)
        return found
