"""The cross entropy of a softmax that is computed over its logits: as beside them, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.kernels import epilogues
from refluid.runtime.memory import Memory
from refluid.runtime.plan import Plan
from refluid.runtime.request import Request

CPU = torch.device("cpu")
layers = fluid.layers
CALL = "softmax_with_cross_entropy_("


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones by the loop, too."""
    monkeypatch.setattr(epilogues, "_ENOUGH", 1)
    monkeypatch.setattr(epilogues, "_WIDE", 1)


def draw(draws: np.random.Generator, width: int) -> list[Any]:
    """A network with a loss of logits that others may read before and after; what to fetch."""
    axis = int(draws.choice([-1, 1, 0]))
    soft, extra = draws.random() < 0.3, draws.choice(["none", "before", "after", "fetched"])
    x = fluid.data("x", [None, width])
    logits = layers.fc(x, width) if draws.random() < 0.7 else layers.scale(x, 2.0)
    if draws.random() < 0.2:
        logits = layers.reshape(logits, [-1, width])  # shares memory with what it reshapes
    label = layers.assign(logits) if soft else None
    if label is not None:
        label = layers.softmax(label, axis=axis)
        label.stop_gradient = True
    else:
        label = fluid.data("axis0" if axis == 0 else "label", [None, 1], "int64")
        label = layers.reshape(label, [1, -1]) if axis == 0 else label
    before = layers.reduce_sum(layers.square(logits)) if extra == "before" else None
    loss, softmax = layers.softmax_with_cross_entropy(
        logits, label, soft_label=soft, axis=axis, return_softmax=True, ignore_index=1
    )
    total = layers.reduce_sum(layers.square(loss))
    if extra == "after":
        total = total + layers.reduce_sum(layers.square(logits))
    if before is not None:
        total = total + before
    if draws.random() < 0.7:
        fluid.optimizer.SGD(0.1).minimize(total)
    fetched = [total, loss]
    fetched += [softmax] if draws.random() < 0.3 else []
    return [*fetched, logits] if extra == "fetched" else fetched


@pytest.mark.parametrize("seed", range(30))
def test_over_logits_and_beside_them(seed: int) -> None:
    draws = np.random.default_rng(seed)
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed + 1
    width = int(draws.integers(2, 40))
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        fetched = draw(draws, width)
    sizes = draws.integers(2, 9, 2)  # few, so that steps of each are recorded too
    feeds = [feed_of(draws, width, int(draws.choice(sizes))) for _ in range(12)]
    kept = {name: value for name, value in feeds[0].items() if main.global_block().has_var(name)}
    found = []
    for in_place in (True, False):
        build = fluid.BuildStrategy()
        build.enable_inplace = in_place
        program = fluid.CompiledProgram(main, build_strategy=build)
        executor, scope = fluid.Executor(), fluid.Scope()
        executor.run(startup, scope=scope)
        rows = [
            executor.run(program, {k: feed[k] for k in kept}, fetched, scope=scope)
            for feed in feeds
        ]
        found.append(rows)
    for over, beside in zip(*found, strict=True):
        for one, other in zip(over, beside, strict=True):
            np.testing.assert_array_equal(one, other)


def feed_of(draws: np.random.Generator, width: int, rows: int) -> dict[str, Any]:
    return {
        "x": draws.normal(0, 3, (rows, width)).astype("float32"),
        "label": draws.integers(0, width, (rows, 1)),
        "axis0": draws.integers(0, rows, (width, 1)),
    }


@pytest.mark.parametrize(("read", "over"), [("nobody", True), ("fetch", False), ("op", False)])
def test_logits_that_others_read_stay(read: str, over: bool) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        logits = layers.scale(fluid.data("x", [4, 8]), 2.0)
        loss, softmax = layers.softmax_with_cross_entropy(
            logits, fluid.data("label", [4, 1], "int64"), return_softmax=True
        )
        others = [softmax, layers.square(logits)] if read == "op" else [softmax]
    fetched = [one.name for one in (loss, *others, *([logits] if read == "fetch" else []))]
    for memory in (Memory(), Memory(in_place=False)):
        request = Request(main.global_block(), ("x", "label"), tuple(fetched), CPU, memory=memory)
        assert (CALL in Plan(request).text) is (over and memory.in_place)
