"""Weights that several operators take: gradients that wait for each other are those that don't."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.build import using
from refluid.core import flags
from refluid.core.places import CPUPlace
from refluid.eager import Eager
from refluid.eager import shared_weights as module
from refluid.fluid import dygraph
from refluid.kernels import packed
from refluid.kernels.products import torch_derives
from tests.choices import often

layers = fluid.layers
FLAG = "FLAGS_refluid_eager_shared_weights"
WIDTH, WORDS = 24, 40


def _ids(source: random.Random, *shape: int) -> Any:
    numbers = np.random.RandomState(source.randrange(1000))
    return dygraph.to_variable(numbers.randint(0, WORDS, shape).astype("int64"))


class Parts(dygraph.Layer):
    """Weights that anything may take, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = dygraph.Linear(WIDTH, WIDTH, act="tanh")
        self.plain = dygraph.Linear(WIDTH, WIDTH, bias_attr=False)
        self.words = dygraph.Embedding([WORDS, WIDTH], padding_idx=3)
        self.square = self.create_parameter([WIDTH, WIDTH])


# From the weights, values (rows, width) so far, and a source of choices: the next values.
USES: dict[str, Callable[[Any, Any, random.Random], Any]] = {
    "linear": lambda net, x, _: net.linear(x),
    "plain": lambda net, x, _: net.plain(x),
    "matmul": lambda net, x, source: layers.matmul(x, net.square, alpha=source.choice([1.0, 0.5])),
    "turned": lambda net, x, _: layers.matmul(x, net.square, transpose_y=True),
    "both turned": lambda net, x, _: layers.matmul(
        layers.transpose(x, [1, 0]), net.square, transpose_x=True
    ),
    "mul": lambda net, x, _: layers.mul(x, net.square),
    "deep": lambda net, x, _: layers.reduce_mean(
        layers.matmul(layers.stack([x, x * 0.5], axis=1), net.square), dim=1
    ),
    "three": lambda net, x, _: layers.reduce_sum(
        net.linear(layers.stack([x, x * 0.5], axis=1)), dim=1
    ),
    "table": lambda net, x, source: x + net.words(_ids(source, x.shape[0])),
    "two ids": lambda net, x, source: (
        x + layers.reduce_sum(net.words(_ids(source, x.shape[0], 2)), dim=1)
    ),
    "table's product": lambda net, x, _: layers.softmax(
        layers.matmul(x, net.words.weight, transpose_y=True)
    )[:, :WIDTH],
    "rest": lambda _, x, __: x * 0.9 + 0.1,
}


def trained(seed: int, rows: int, shared: bool) -> list[Any]:
    """The gradients after a few random steps, and those that `grad` gives."""
    source = random.Random(seed)
    kinds = source.choices([*USES], k=source.randint(3, 12)) * source.choice([1, 2])
    with flags.override({FLAG: shared}), dygraph.guard():
        fluid.default_startup_program().random_seed = 3
        net = Parts()
        numbers = np.random.RandomState(seed)
        for one in net.parameters():
            one.set_value(numbers.uniform(-0.3, 0.3, one.shape).astype("float32"))
        found = []
        for number in range(source.choice([1, 2])):
            x = dygraph.to_variable(numbers.rand(rows, WIDTH).astype("float32"))
            x.stop_gradient = source.random() < 0.5
            out = x
            for n, kind in enumerate(kinds):
                with torch.set_grad_enabled(n != 1 or source.random() < 0.5):
                    out = USES[kind](net, out, source)
            out = out + net.linear(x)
            loss = layers.reduce_mean(out * out)
            if number == 0 and source.random() < 0.5:
                square = net.linear.weight
                found += [
                    one.numpy()
                    for one in dygraph.grad(loss, [square], create_graph=True, retain_graph=True)
                ]
            loss.backward()
            found.append(x.gradient())
        return [*found, *(one.gradient() for one in net.parameters())]


@pytest.mark.parametrize("rows", [1, 5, 23, 60])
@pytest.mark.parametrize("seed", often(range(10), range(5)))
def test_random_uses_have_the_gradients_of_each_use_added_up(seed: int, rows: int) -> None:
    found, wanted = trained(seed, rows, shared=True), trained(seed, rows, shared=False)
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("rows", [1, 5, 23])
@pytest.mark.parametrize("seed", often(range(6), range(3)))
def test_weights_in_order_give_the_same_gradients(
    monkeypatch: pytest.MonkeyPatch, seed: int, rows: int
) -> None:
    if not torch.backends.mkl.is_available() or torch_derives() < math.inf:
        pytest.skip("torch multiplies by another library here")
    monkeypatch.setattr(packed, "LEAST", 1)
    monkeypatch.setattr(packed, "USES", 2)
    found = trained(seed, rows, shared=True)
    with flags.override({"FLAGS_refluid_packed_weights": False}):
        wanted = trained(seed, rows, shared=True)
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def test_weights_are_brought_in_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.backends.mkl.is_available() or torch_derives() < math.inf:
        pytest.skip("torch multiplies by another library here")
    ordered: list[int] = []
    order = packed.order
    assert order is not None

    def noted(*given: Any) -> Any:
        ordered.append(given[1])
        return order(*given)

    monkeypatch.setattr(packed, "order", noted)
    with using(Eager(CPUPlace())):
        weight = dygraph.to_variable(np.full((512, 512), 1 / 512, "float32"))
        weight.stop_gradient = False
        x = dygraph.to_variable(np.ones((3, 512), "float32"))
        x.stop_gradient = False
        for uses, expected in ((3, []), (9, [3])):
            out = x
            for _ in range(uses):
                out = layers.matmul(out, weight)
            layers.reduce_sum(out).backward()
            assert ordered == expected
            np.testing.assert_allclose(x.gradient(), np.ones((3, 512)), rtol=1e-5)
            x.clear_gradient()


@pytest.mark.parametrize(
    ("rows", "width", "waited"),
    [
        (2, 200, [1248, 1248, 832]),  # by plan, by autograd, then eight uses of 416
        (3, 16, [72] * 8),  # two would be more than the weight
        (8, 8, []),  # one is as much as the weight
    ],
)
def test_gradients_wait_while_their_rows_are_fewer_numbers_than_the_weight(
    monkeypatch: pytest.MonkeyPatch, rows: int, width: int, waited: list[int]
) -> None:
    sizes: list[int] = []
    former = module._Waiting.compute

    def compute(one: Any, kept: int) -> None:
        sizes.append(one.size)
        former(one, kept)

    monkeypatch.setattr(module._Waiting, "compute", compute)
    with using(Eager(CPUPlace())):
        weight = dygraph.to_variable(np.ones((8, width), "float32"))
        weight.stop_gradient = False
        x = dygraph.to_variable(np.ones((rows, 8), "float32"))
        layers.sums([layers.reduce_sum(layers.matmul(x, weight)) for _ in range(10)]).backward()
        np.testing.assert_allclose(weight.gradient(), np.full((8, width), 10.0 * rows))
    assert sizes == waited


def test_what_fails_within_backward_leaves_nothing_behind() -> None:
    with dygraph.guard():
        weight = dygraph.to_variable(np.ones((8, 8), "float32"))
        weight.stop_gradient = False
        x = dygraph.to_variable(np.ones((1, 8), "float32"))
        x.stop_gradient = False
        first = layers.matmul(layers.matmul(x, weight), weight)
        loss = layers.reduce_sum(first)
        loss.held.register_hook(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loss.backward()
        assert weight.gradient() is None
        again = layers.reduce_sum(layers.matmul(layers.matmul(x, weight), weight))
        again.backward()
        np.testing.assert_allclose(weight.gradient(), np.full((8, 8), 16.0))
