"""Replicas that run as one step of one thread compute what they compute in threads of their own."""

import linecache
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from tests.choices import crossed
from tests.runtime.replica_training import (
    NETWORKS,
    OPTIMIZERS,
    ROWS,
    STEPS,
    Training,
    agree,
    as_in_threads,
    in_threads_only,
    mlp,
    sparse,
)

layers = fluid.layers


@pytest.fixture
def in_threads() -> Callable[..., Training]:
    """Makes a training that has run so many steps in threads."""

    def train(*arguments: Any, steps: int = STEPS, **options: Any) -> tuple[Training, list[Any]]:
        with in_threads_only():
            made = Training(*arguments, **options)
            found = made.steps(steps)
            assert not made.batched
        return made, found

    return train


@pytest.mark.parametrize(
    ("network", "optimizer", "reduce"),
    crossed(
        NETWORKS,
        OPTIMIZERS,
        [False, True],
        fast=[
            *((network, "momentum", False) for network in NETWORKS),
            *((network, "adam", True) for network in NETWORKS if network != "normalised"),
            ("mlp", "sgd", False),
            ("sparse", "sgd", True),
            ("normalised", "sgd", True),
        ],
    ),
)
def test_losses_and_outputs(in_threads, network: str, optimizer: str, reduce: bool) -> None:
    other, expected = in_threads(NETWORKS[network], optimizer, reduce=reduce)
    run = Training(NETWORKS[network], optimizer, reduce=reduce)
    agree(run.steps(), expected)
    agree([run.parameters()], [other.parameters()])
    assert run.batched or network in ("images", "normalised")


def test_three_replicas(in_threads) -> None:
    _, expected = in_threads(mlp, "adam", 3)
    run = Training(mlp, "adam", 3)
    agree(run.steps(), expected)
    assert run.batched


def test_a_sum_and_its_relu_are_one_call_for_all(in_threads) -> None:
    def deep() -> Any:
        hidden = layers.fc(fluid.data("x", [None, 6]), 8, act="relu")
        return layers.fc(layers.fc(hidden, 7, act="relu"), 5)

    def fused() -> fluid.BuildStrategy:
        strategy = fluid.BuildStrategy()
        strategy.fuse_elewise_add_act_ops = True
        return strategy

    _, expected = in_threads(deep, strategy=fused())
    run = Training(deep, strategy=fused())
    agree(run.steps(), expected)
    assert run.batched
    sources = [one for name, one in [*linecache.cache.items()] if "refluid batched" in name]
    texts = ["".join(one[2]) for one in sources if len(one) == 4]
    assert 2 in [text.count("_add_relu_kernel(") for text in texts]  # 4 were one for each replica


def test_batches_that_do_not_part_evenly_run_in_threads(in_threads) -> None:
    def train(run: Training) -> list[Any]:
        rows = [ROWS] * 6 + [ROWS - 1] + [ROWS] * 2 + [ROWS - 1] * 2 + [ROWS]
        return [run.step(seed, count) for seed, count in enumerate(rows)]

    as_in_threads(train)


def test_a_parameter_that_the_user_sets_is_used_by_all() -> None:
    run = Training()
    run.steps()
    for parameter in run.main.all_parameters():
        cell = run.scope.find_var(parameter.name)
        assert cell is not None
        cell.get_tensor().set(np.zeros(parameter.shape, "float32"), fluid.CPUPlace())
    loss, out = run.step(99)
    assert run.batched
    assert not out.any()
    np.testing.assert_allclose(loss, np.log(5), rtol=1e-6)


def test_an_error_names_the_operator_and_training_goes_on() -> None:
    run = Training(sparse)
    run.steps()
    bad = {
        "x": np.zeros((ROWS, 6), "float32"),
        "label": np.zeros((ROWS, 1), "int64"),
        "ids": np.full((ROWS, 1), 1000),
    }
    message = r"operator lookup_table\w* failed[\s\S]*replica_training"
    with pytest.raises(EnforceNotMet, match=message):
        run.executor.run(run.program, bad, [run.loss, run.out], scope=run.scope)
    assert np.isfinite(run.step(5)[0]).all()
    assert run.batched


def test_random_numbers_go_on() -> None:
    def dropped() -> Any:
        x = fluid.data("x", [None, 6])
        return layers.fc(layers.dropout(layers.fc(x, 64) * 0.0 + 1.0, 0.5), 5)

    run = Training(dropped, seed=0)
    outs = [out for _, out in run.steps(12)]
    halves = [(out[: ROWS // 2], out[ROWS // 2 :]) for out in outs]
    assert all(not np.array_equal(one, other) for one, other in halves)
    assert len({one.tobytes() for one in outs}) == len(outs)


def test_what_has_other_effects_stays_in_threads(caplog: pytest.LogCaptureFixture) -> None:
    def printed() -> Any:
        return layers.fc(layers.Print(fluid.data("x", [None, 6]), message="x"), 5)

    run = Training(printed)
    with caplog.at_level(logging.INFO, logger="refluid"):
        run.steps()
    assert not run.batched
    assert "replicas stay in their threads: operator print has effects" in caplog.text
