"""Small models, saved to a folder, and what `Executor.run` computes with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import refluid.fluid as fluid

Network = Callable[[], tuple[list[str], list[Any]]]


def images(layout: str = "NCHW") -> tuple[list[str], list[Any]]:
    """Convolutions with and without bias, each normalised; one is used twice."""
    shape = [None, 3, 8, 8] if layout == "NCHW" else [None, 8, 8, 3]
    image = fluid.data("image", shape)
    x = image
    for groups, bias in ((1, False), (4, None), (1, None)):
        x = fluid.layers.conv2d(
            x, 8, 3, groups=groups, padding=1, bias_attr=bias, data_format=layout
        )
        x = fluid.layers.batch_norm(x, act="relu", data_layout=layout)
    twice = fluid.layers.conv2d(x, 4, 1, data_format=layout)
    norm = fluid.layers.batch_norm(twice, data_layout=layout)
    both = fluid.layers.elementwise_add(twice, norm)
    return ["image"], [fluid.layers.fc(both, 5, act="softmax"), norm]


def words() -> tuple[list[str], list[Any]]:
    """Sequences of words and a vector for each."""
    word = fluid.data("word", [None, 1], "int64", lod_level=1)
    side = fluid.data("side", [None, 4])
    rows = fluid.layers.embedding(word, [20, 4])
    pooled = fluid.layers.sequence_pool(rows, "sum")
    both = fluid.layers.concat([pooled, side], 1)
    return ["word", "side"], [
        fluid.layers.fc(both, 3),
        fluid.layers.sequence_softmax(fluid.layers.fc(rows, 1)),
    ]


def save(folder: Path, network: Network, *, combined: bool = False) -> Path:
    """Saves a network whose variables all have random values."""
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1
    with (
        fluid.scope_guard(fluid.Scope()),
        fluid.program_guard(main, startup),
        fluid.unique_name.guard(),
    ):
        feeds, targets = network()
        executor = fluid.Executor()
        executor.run(startup)
        draw = np.random.RandomState(0)
        for var in main.list_vars():
            if var.persistable and len(var.shape) == 1:
                tensor = fluid.global_scope().find_var(var.name).get_tensor()
                tensor.set(draw.rand(*var.shape).astype("float32") + 0.5, fluid.CPUPlace())
        names = {"model_filename": "model", "params_filename": "params"} if combined else {}
        fluid.io.save_inference_model(str(folder), feeds, targets, executor, main, **names)
    return folder


def by_executor(folder: Path, feed: dict[str, Any]) -> list[Any]:
    """What `Executor.run` gives, as arrays."""
    with fluid.scope_guard(fluid.Scope()):
        executor = fluid.Executor()
        program, _, fetches = fluid.io.load_inference_model(str(folder), executor)
        found = executor.run(program, feed, fetches, return_numpy=False)
    return [np.array(one) for one in found]
