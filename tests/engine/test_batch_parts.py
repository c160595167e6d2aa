"""Steps that go through their batch in parts are those of the whole batch, and hold less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.measure.peak import peak_bytes

layers, optimizers = fluid.layers, fluid.optimizer
SEEDS = [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 40))]
OPTIMIZERS = (
    lambda: optimizers.SGD(0.1),
    lambda: optimizers.Momentum(layers.exponential_decay(0.1, 3, 0.5), 0.9),
    lambda: optimizers.Adam(0.01, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.5)),
    lambda: optimizers.Adam(0.01, regularization=fluid.regularizer.L2Decay(0.01)),
)


class Random:
    """A random network; `rows` of a batch are any number."""

    def __init__(self, seed: int) -> None:
        self.random = random = np.random.RandomState(seed)
        self.main, startup = fluid.Program(), fluid.Program()
        self.main.random_seed = startup.random_seed = seed + 1
        self.width = int(random.randint(2, 9))
        with fluid.unique_name.guard(), fluid.program_guard(self.main, startup):
            x = fluid.data("x", [None, self.width])
            words, label = (fluid.data(name, [None, 1], "int64") for name in ("words", "label"))
            table = fluid.embedding(words, [20, 4], is_sparse=bool(random.randint(2)))
            h = layers.concat([x, layers.reshape(table, [-1, 4])], 1)
            for _ in range(random.randint(1, 4)):
                act = str(random.choice(["relu", "tanh", "sigmoid"]))
                made = layers.fc(h, int(random.randint(2, 9)), act=act)
                h = layers.concat([h, made], 1) if random.randint(2) else made
            self.out = layers.fc(h, 3, act="softmax")
            self.loss = layers.mean(layers.cross_entropy(self.out, label))
            OPTIMIZERS[random.randint(len(OPTIMIZERS))]().minimize(self.loss)
        self.scope, self.executor, self.compiled = fluid.Scope(), fluid.Executor(), None
        self.executor.run(startup, scope=self.scope)

    def feed(self, rows: int) -> dict[str, Any]:
        return {
            "x": self.random.rand(rows, self.width).astype("float32"),
            "words": self.random.randint(0, 20, (rows, 1)),
            "label": self.random.randint(0, 3, (rows, 1)),
        }

    def step(self, feed: dict[str, Any], *, compiled: bool = False) -> list[Any]:
        program: Any = self.main
        if compiled:
            self.compiled = self.compiled or fluid.CompiledProgram(self.main).with_data_parallel(
                self.loss.name, places=[fluid.CPUPlace()]
            )
            program = self.compiled
        return self.executor.run(program, feed, [self.loss, self.out], scope=self.scope)

    def state(self) -> dict[str, Any]:
        names = [one.name for one in self.main.list_vars() if one.persistable]
        found = {name: self.scope.find_var(name) for name in names}
        return {
            name: one.value.numpy().copy()
            for name, one in found.items()
            if one is not None and isinstance(one.value, torch.Tensor)
        }


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_are_those_of_the_whole_batch(seed: int) -> None:
    found = []
    for parts in (1, int(np.random.RandomState(seed).choice([2, 3, 4]))):
        net = Random(seed)
        with flags.override({"FLAGS_refluid_batch_parts": parts}):
            got = [
                net.step(net.feed(rows), compiled=bool(seed % 2))
                for rows in (12, 24, 12, 7, 12, 12, 24)
            ]
        found.append((got, net.state()))
    (whole, state), (parted, other) = found
    for one, two in zip(whole, parted, strict=True):
        for a, b in zip(one, two, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
            assert a.shape == b.shape
    assert state.keys() == other.keys()
    for name, value in state.items():
        np.testing.assert_allclose(value, other[name], rtol=2e-3, atol=1e-5, err_msg=name)


@pytest.mark.slow  # torch's profiler takes seconds to start
def test_a_step_holds_less() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        h = fluid.data("x", [None, 64])
        for _ in range(4):
            h = layers.fc(h, 64, act="tanh")
        loss = layers.mean(h)
        optimizers.SGD(0.1).minimize(loss)
    scope, executor = fluid.Scope(), fluid.Executor()
    executor.run(startup, scope=scope)
    feed = {"x": np.ones((1024, 64), "float32")}

    def step() -> None:
        executor.run(main, feed, [loss], scope=scope)

    peaks = []
    for parts in (1, 4):
        with flags.override({"FLAGS_refluid_batch_parts": parts}):
            step()
            step()
            peaks.append(peak_bytes(step))
    assert peaks[1] < 0.5 * peaks[0]


def test_what_cant_be_cut_stays_whole() -> None:
    net = Random(3)
    feed = net.feed(8)
    test = net.main.clone(for_test=True)
    with flags.override({"FLAGS_refluid_batch_parts": 4}):
        (out,) = net.executor.run(test, feed, [net.out], scope=net.scope)
        assert out.shape == (8, 3)
        with pytest.raises(Exception, match="nowhere"):
            net.executor.run(net.main, feed, ["nowhere"], scope=net.scope)
        before = net.state()
        unused = net.scope.var("unused")
        net.step(feed)
    after = net.state()
    assert any((after[name] != value).any() for name, value in before.items())
    assert net.scope.find_var("unused") is unused


def test_the_program_may_change() -> None:
    net = Random(5)
    with flags.override({"FLAGS_refluid_batch_parts": 2}):
        net.step(net.feed(8))
        with fluid.program_guard(net.main):
            twice = layers.scale(net.loss, 2.0)
        loss, double = net.executor.run(net.main, net.feed(8), [net.loss, twice], scope=net.scope)
    np.testing.assert_allclose(2 * loss, double, rtol=1e-6)


def test_what_no_operator_uses_keeps_its_value() -> None:
    net = Random(1)
    net.main.global_block().create_var(name="kept", shape=[2], dtype="float32", persistable=True)
    net.scope.var("kept").value = torch.full((2,), 5.0)
    with flags.override({"FLAGS_refluid_batch_parts": 2}):
        net.step(net.feed(8))
    assert net.scope.find_var("kept").value.tolist() == [5.0, 5.0]
