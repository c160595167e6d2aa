"""What values decide is never recorded: rows that are chosen, lengths of loops."""

from __future__ import annotations

import numpy as np

from refluid import fluid
from refluid.core import flags

layers = fluid.layers


def _chosen(tier: str) -> list[float]:
    """Losses of a network that learns from those rows whose first number is positive."""
    with flags.override({"FLAGS_refluid_tier": tier}), fluid.unique_name.guard():
        main, startup = fluid.Program(), fluid.Program()
        startup.random_seed = 3
        with fluid.program_guard(main, startup):
            x = fluid.data("x", [8, 4])
            places = layers.where(layers.slice(x, [1], [0], [1]) > 0.5)
            rows = layers.gather(layers.fc(x, 4), layers.slice(places, [1], [0], [1]))
            loss = layers.mean(layers.square(layers.reshape(rows, [-1, 2, 2])))
            fluid.optimizer.Adam(0.1).minimize(loss)
        scope, executor = fluid.Scope(), fluid.Executor()
        executor.run(startup, scope=scope)
        random = np.random.RandomState(0)
        feeds = [{"x": (random.rand(8, 4) + step / 20).astype("float32")} for step in range(12)]
        return [executor.run(main, one, [loss], scope=scope)[0].item() for one in feeds]


def test_rows_that_values_choose() -> None:
    assert _chosen("auto") == _chosen("recorded") == _chosen("interpreted")


def test_a_loop_of_another_length() -> None:
    """What a loop leaves unset in one step, another step needs."""
    losses = []
    for tier in ("interpreted", "recorded"):
        with flags.override({"FLAGS_refluid_tier": tier}), fluid.unique_name.guard():
            main, startup = fluid.Program(), fluid.Program()
            startup.random_seed = 3
            with fluid.program_guard(main, startup):
                bound = fluid.data("bound", [1], "int64")
                net = layers.fc(fluid.data("x", [2, 4]), 4)
                count = layers.fill_constant([1], "int64", 0)
                _, net = layers.while_loop(
                    lambda n, _, bound=bound: layers.less_than(n, bound),
                    lambda n, v: [layers.increment(n, 1, in_place=False), layers.tanh(v * 1.1)],
                    [count, net],
                )
                loss = layers.mean(layers.square(net))
                fluid.optimizer.SGD(0.1).minimize(loss)
            scope, executor = fluid.Scope(), fluid.Executor()
            executor.run(startup, scope=scope)
            x = np.ones((2, 4), "float32")
            feeds = [{"x": x, "bound": np.array([n])} for n in (2, 1, 3, 1, 4)]
            losses.append([executor.run(main, f, [loss], scope=scope)[0].item() for f in feeds])
    assert losses[0] == losses[1]


def test_sizes_computed_from_shapes_are_recorded() -> None:
    """What is read there follows from the shapes fed, and the step is kernels alone."""
    found = []
    for tier in ("interpreted", "recorded"):
        with flags.override({"FLAGS_refluid_tier": tier}), fluid.unique_name.guard():
            main = fluid.Program()
            with fluid.program_guard(main, fluid.Program()):
                x = fluid.data("x", [None, 4])
                rows = layers.slice(layers.shape(x), [0], [0], [1])
                net = layers.fill_constant([rows, 4], "float32", 2.0) * x
            executor = fluid.Executor()
            feeds = [{"x": np.full((n, 4), n, "float32")} for n in (3, 5, 3, 5, 5, 3)]
            found.append([executor.run(main, one, [net])[0].tobytes() for one in feeds])
    assert found[0] == found[1]
    plans = [step for one in executor._group.cache.values() for step in one.steps.values()]
    current = plans[0]._tiers._now.current
    assert current is not None
    assert "fill_constant(" not in current.code.source.text
