"""Recordings for sizes that change: bit for bit what the operators compute, size by size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.runtime.plan import Plan
from refluid.runtime.recorded import bysize

layers = fluid.layers


@pytest.fixture(autouse=True)
def _flags() -> Iterator[None]:
    yield
    fluid.set_flags({"FLAGS_refluid_tier": "auto"})


def _attention() -> tuple[Any, Any]:
    words = fluid.data("words", [None, None], "int64")
    net = fluid.embedding(words, [50, 8])
    query, key = (layers.fc(net, 8, num_flatten_dims=2) for _ in range(2))
    scores = layers.matmul(query, key, transpose_y=True, alpha=0.25)
    net = layers.layer_norm(layers.matmul(layers.softmax(scores), net), begin_norm_axis=2)
    return layers.reduce_mean(net, 1), words


def _shifted() -> tuple[Any, Any]:
    words = fluid.data("words", [None, None], "int64")
    net = layers.reshape(fluid.embedding(words, [50, 8]), [-1, 8])
    net = layers.fc(net, 8, act="relu")
    net = layers.pad(net, [1, 2, 0, 0])
    return layers.reduce_sum(net, 0, keep_dim=True), words


def _dropped() -> tuple[Any, Any]:
    words = fluid.data("words", [None, None], "int64")
    net = layers.dropout(fluid.embedding(words, [50, 8]), 0.5, seed=3)
    return layers.reduce_max(net, 1), words


def _halved() -> tuple[Any, Any]:
    words = fluid.data("words", [None, None], "int64")
    net = layers.unsqueeze(fluid.embedding(words, [50, 8]), [1])
    return layers.reduce_max(layers.pool2d(net, [2, 1], "max", [2, 1]), [1, 2]), words


class Model:
    """Trains on words of any number of rows and any length."""

    def __init__(self, network: Callable[[], tuple[Any, Any]], tier: str = "recorded") -> None:
        fluid.set_flags({"FLAGS_refluid_tier": tier})
        self.main, startup = fluid.Program(), fluid.Program()
        self.main.random_seed = startup.random_seed = 7
        with fluid.unique_name.guard(), fluid.program_guard(self.main, startup):
            net, _ = network()
            self.loss = layers.mean(layers.square(layers.fc(net, 3)))
            fluid.optimizer.SGD(0.001).minimize(self.loss)
        self.scope, self.executor = fluid.Scope(), fluid.Executor()
        self.executor.run(startup, scope=self.scope)

    def steps(self, sizes: list[tuple[int, int]]) -> list[float]:
        """The losses of batches of these rows and lengths."""
        random = np.random.RandomState(0)
        feeds = [{"words": random.randint(0, 50, size)} for size in sizes]
        run = self.executor.run
        return [run(self.main, one, [self.loss], scope=self.scope)[0].item() for one in feeds]


def _sizes(count: int, seed: int = 1) -> list[tuple[int, int]]:
    random = np.random.RandomState(seed)
    return [(random.randint(2, 9), random.randint(2, 40)) for _ in range(count)]


NETWORKS = [_attention, _shifted, _dropped, _halved]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("tier", ["auto", pytest.param("recorded", marks=pytest.mark.slow)])
def test_steps_of_all_sizes(network: Any, tier: str, said: Callable[[], list[str]]) -> None:
    sizes = _sizes(9) * 5
    expected = Model(network, "interpreted").steps(sizes)
    assert said() == []
    model = Model(network, tier)
    assert model.steps(sizes) == expected
    assert any(" to " in line for line in said())
    # What has been recorded is recorded no more.
    model.steps(sizes)
    assert said() == []


def test_a_size_is_served_only_after_it_was_recorded() -> None:
    model = Model(_attention)
    model.steps([(4, length) for length in range(2, 12)])
    (plan,) = _plans(model)
    served = plan._tiers._now.tables.made
    lengths = sorted(shapes[0][1] for one in served for shapes in one._rows)
    assert lengths == [7, 8, 9, 10, 11]  # the first five have recordings of their own
    feeds = [torch.zeros(4, 20, dtype=torch.int64)]
    assert (
        plan._tiers.choose(feeds, plan.cells(model.scope)).step
        != plan._tiers._now.current.code.step
    )


def _choosing() -> tuple[Any, Any]:
    """The product of long sentences is large enough for another kernel where there is one."""
    words = fluid.data("words", [None, None], "int64")
    net = layers.fc(fluid.embedding(words, [50, 64]), 64, num_flatten_dims=2, act="relu")
    return layers.reduce_mean(net, 1), words


def test_where_code_chooses_by_sizes_each_choice_has_a_table() -> None:
    random = np.random.RandomState(1)
    sizes = [(8, random.choice([random.randint(2, 9), random.randint(60, 66)])) for _ in range(80)]
    expected = Model(_choosing, "interpreted").steps(sizes)
    model = Model(_choosing, "auto")
    assert model.steps(sizes) == expected


@pytest.mark.parametrize("network", NETWORKS)
def test_sizes_of_one(network: Any) -> None:
    sizes = [*_sizes(8), (1, 7), (6, 2), (1, 2), *_sizes(5, 2), (1, 9)] * 2
    expected = Model(network, "interpreted").steps(sizes)
    assert Model(network).steps(sizes) == expected


def test_too_many_sizes_stay_interpreted(
    said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bysize, "SIZES", 9)
    sizes = [(4, length) for length in range(2, 30)] * 2
    expected = Model(_attention, "interpreted").steps(sizes)
    assert Model(_attention).steps(sizes) == expected
    assert any("there are too many sizes" in line for line in said())


def test_a_few_shapes_have_recordings_of_their_own(said: Callable[[], list[str]]) -> None:
    Model(_attention).steps([(4, 5), (4, 6), (4, 7)] * 4)
    assert sum("for feeds of shapes [[" in line for line in said()) == 3


def _plans(model: Model) -> list[Plan]:
    found = [one for one in model.executor._group.cache.values() if one.program is model.main]
    return [step for one in found for step in one.steps.values() if isinstance(step, Plan)]
