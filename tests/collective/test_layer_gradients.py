"""Gradients of dygraph's layers, exchanged in buckets while the backward pass goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.collective.gradient_buckets import parted
from refluid.paddle.distributed.data_parallel import DataParallel
from refluid.paddle.nn import Linear, Sequential
from tests.collective import layered
from tests.collective.jobs import as_trainers

SEEDS = [1, 2, 3]


@pytest.mark.parametrize(
    ("overlap", "seeds"),
    [
        ("1", SEEDS[:1]),
        pytest.param("0", SEEDS[:1], marks=pytest.mark.slow),
        *(pytest.param(overlap, SEEDS[1:], marks=pytest.mark.slow) for overlap in "10"),
    ],
)
def test_many_train_as_one(overlap: str, seeds: list[int], tmp_path: Path) -> None:
    flags = {"FLAGS_refluid_overlap_exchange": overlap}
    trained = as_trainers(2, layered.train_ways, seeds, folder=tmp_path, environment=flags)
    alone = layered.train_ways(seeds)
    for own in trained:
        assert isinstance(own, dict), own
        for key, values in alone.items():
            for value, wanted in zip(own[key], values, strict=True):
                np.testing.assert_allclose(value, wanted, rtol=2e-4, atol=1e-5, err_msg=str(key))


@pytest.mark.parametrize("overlap", ["1", "0"])
def test_exchanges_begin_before_the_pass_ends(overlap: str, tmp_path: Path) -> None:
    flags = {"FLAGS_refluid_overlap_exchange": overlap}
    for first, *later in as_trainers(2, layered.launched, folder=tmp_path, environment=flags):
        assert first == (0, 0)  # the order isn't known yet
        for count, buckets in later:
            assert buckets > 5
            # Of layers that aren't used the gradients never come: the last bucket's, at least.
            assert 3 < count < buckets if overlap == "1" else count == 0


def test_a_gradient_that_some_lack(tmp_path: Path) -> None:
    refused = as_trainers(2, layered.lacking, False, folder=tmp_path)
    for one in refused:
        assert "trainers differ in what they sum the gradients of: trainer 0: " in one, one
    first, second = as_trainers(2, layered.lacking, True, folder=tmp_path)
    assert first == second
    assert first[0] is None and first[1] and first[2]


def test_an_infinity_of_one_is_found_by_all(tmp_path: Path) -> None:
    (scales, sums, _), other = as_trainers(2, layered.scaled, True, folder=tmp_path)
    assert (scales, sums) == other[:2]
    assert scales == [1024.0, 1024.0, 512.0, 512.0, 512.0, 1024.0]
    assert sums[1] == sums[2] != sums[3]
    assert all(one[2] for one in as_trainers(2, layered.scaled, False, folder=tmp_path))


def test_a_layer_of_paddle_2_alone() -> None:
    with fluid.dygraph.guard():
        layer = Sequential(Linear(2, 3), Linear(3, 1))
        model = DataParallel(layer)
        model.eval()
        assert not layer.training and not any(one.training for one in layer.sublayers())
        model.train()
        assert all(one.training for one in layer.sublayers())
        assert [id(one) for one in model.parameters()] == [id(one) for one in layer.parameters()]
        model(fluid.dygraph.to_variable(np.ones((4, 2), "float32"))).backward()
        assert all(one.gradient_value is not None for one in layer.parameters())


def test_an_array_of_one_element_is_a_number_as_it_was() -> None:
    with fluid.dygraph.guard():
        value = fluid.dygraph.to_variable(np.ones(1, "float32")).numpy()
        assert "%.2f" % value == "1.00" and float(value) == 1.0  # noqa: UP031


def test_buckets_hold_what_they_may() -> None:
    draws = np.random.default_rng(2)
    for _ in range(50):
        sizes = [int(one) for one in draws.integers(1, 100, draws.integers(1, 30))]
        largest, last = float(draws.integers(1, 300)), float(draws.integers(1, 100))
        order = [int(one) for one in draws.permutation(len(sizes))]
        parts: list[Any] = parted(order, [sizes[one] for one in order], largest, last)
        assert [one for part in parts for one in part] == order
        for part, most in zip(parts[::-1], [last] + [largest] * len(parts), strict=False):
            assert len(part) == 1 or sum(sizes[one] for one in part) <= most
