"""Networks that trainers train: the same on each, or in one process on all of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import refluid.fluid as fluid

STEPS, ROWS = 21, 12  # three steps of local SGD several times


def batches(count: int = STEPS, rows: int = ROWS) -> list[dict[str, Any]]:
    """What all trainers together are fed, step by step."""
    draws = np.random.default_rng(7)
    return [
        {
            "x": draws.standard_normal((rows, 6)).astype("float32"),
            "y": draws.standard_normal((rows, 1)).astype("float32"),
            "word": draws.integers(0, 30, (rows, 1)).astype("int64"),
        }
        for _ in range(count)
    ]


def share(batch: dict[str, Any], rank: int, size: int) -> dict[str, Any]:
    """The rows of one trainer."""
    return {name: np.array_split(value, size)[rank] for name, value in batch.items()}


def regression(sparse: bool = False) -> Any:
    """The loss of a small network over `x` and `word`."""
    x = fluid.data("x", [None, 6], "float32")
    y = fluid.data("y", [None, 1], "float32")
    word = fluid.data("word", [None, 1], "int64")
    known = fluid.embedding(word, [30, 4], is_sparse=sparse)
    hidden = fluid.layers.fc([x, fluid.layers.reshape(known, [-1, 4])], 16, act="tanh")
    out = fluid.layers.fc(hidden, 1)
    return fluid.layers.reduce_mean(fluid.layers.square_error_cost(out, y))


def built(
    optimizer: Callable[[], Any], *, seed: int = 3, sparse: bool = False
) -> tuple[Any, Any, Any]:
    """(main program, startup program, loss)."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = regression(sparse)
        optimizer().minimize(loss)
    return main, startup, loss


def parameters(main: Any) -> dict[str, Any]:
    """The values of all persistable variables, but for readers, that this trainer has."""
    scope = fluid.global_scope()
    cells = {var.name: scope.find_var(var.name) for var in main.list_vars() if var.persistable}
    return {
        name: np.array(cell.get_tensor())
        for name, cell in cells.items()
        if cell is not None and isinstance(cell.value, torch.Tensor)
    }
