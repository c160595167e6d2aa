"""What one weight becomes in each way to train: two trainers, whose gradients are 1 and 10."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from tests.pserver.jobs import Job, Trainer


def one_weight(rate: Any = 0.1) -> Any:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 1], "float32")
        first = fluid.initializer.Constant(1.0)
        attr = fluid.ParamAttr(name="w", initializer=first)
        loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=attr, bias_attr=False))
        fluid.optimizer.SGD(rate() if callable(rate) else rate).minimize(loss)
    return main, startup, loss


def one_row(rate: float = 0.1) -> Any:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None, 1], "int64")
        x = fluid.data("x", [None, 1], "float32")
        attr = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(1.0))
        row = fluid.layers.embedding(ids, [10, 1], is_sparse=True, param_attr=attr)
        loss = fluid.layers.mean(row * x)
        fluid.optimizer.SGD(rate).minimize(loss)
    return main, startup, loss


def fed(trainer: Trainer) -> dict[str, Any]:
    slope = np.full((1, 1), [1.0, 10.0][trainer.number], "float32")
    return {"x": slope, "ids": np.array([[3]])}


def weights(trainer: Trainer) -> list[float]:
    """The weight before the first step, and after each of three."""
    seen = [trainer.value("w").item()]
    feed = {"x": fed(trainer)["x"]}
    for _ in range(3):
        trainer.step(feed)
        seen.append(trainer.value("w").item())
    return seen


@pytest.mark.parametrize("servers", [1, 2])
def test_synchronous(servers: int) -> None:
    for seen in Job(one_weight, servers, 2, True).run(weights):
        np.testing.assert_allclose(seen, [1.0, 0.45, -0.1, -0.65], rtol=1e-6)


def test_synchronous_rows() -> None:
    def train(trainer: Trainer) -> list[float]:
        losses = [trainer.step(fed(trainer), [trainer.loss])[0].item() for _ in range(4)]
        return [loss / fed(trainer)["x"].item() for loss in losses]

    for seen in Job(one_row, 2, 2, True).run(train):
        np.testing.assert_allclose(seen, [1.0, 0.45, -0.1, -0.65], rtol=1e-5)


def test_learning_rates_decay_on_the_servers() -> None:
    def decayed() -> Any:
        return fluid.layers.exponential_decay(0.1, decay_steps=1, decay_rate=0.5)

    for seen in Job(lambda: one_weight(decayed), 1, 2, True).run(weights):
        np.testing.assert_allclose(seen, [1.0, 0.45, 0.175, 0.0375], rtol=1e-5)


def test_half_asynchronous() -> None:
    """Each gradient counts in full; a trainer sees its own at once."""
    found = Job(one_weight, 1, 2, False, half_async=True).run(weights)
    for number, seen in enumerate(found):
        own = [0.1, 1.0][number]
        assert all(before - after >= own - 1e-6 for before, after in pairwise(seen))
    np.testing.assert_allclose(min(seen[-1] for seen in found), 1.0 - 3 * 1.1, rtol=1e-5)


def test_asynchronous() -> None:
    """Each gradient counts in full; when all were sent, so does the trainer's copy."""

    def train(trainer: Trainer) -> float:
        weights(trainer)
        link = trainer.main._servers.link
        link.flush()
        return float(link.client.state()[0]["pushes"])

    job = Job(one_weight, 1, 2, False)
    kept: list[Any] = []
    job.run(lambda trainer: kept.append(_final(trainer, train)))
    np.testing.assert_allclose(min(kept), 1.0 - 3 * 1.1, rtol=1e-5)


def _final(trainer: Trainer, train: Any) -> float:
    train(trainer)
    return float(trainer.main._servers.link.client.pull()["w"].item())


def test_rows_are_fresh_in_asynchronous_training() -> None:
    def train(trainer: Trainer) -> list[float]:
        seen = []
        for _ in range(3):
            seen.append(trainer.step(fed(trainer), [trainer.loss])[0].item())
            trainer.main._servers.link.flush()
        rows = trainer.main._servers.link.look_up("w", [torch.tensor([3])])
        return [*seen, rows[0].item()]

    found = Job(one_row, 2, 2, False).run(train)
    np.testing.assert_allclose(min(seen[-1] for seen in found), 1.0 - 3 * 1.1, rtol=1e-5)


def test_geo() -> None:
    """Alone, each exchange gives the trainer's own weight; of two each moves by half as much."""
    settings = {"geo_sgd_mode": True, "geo_sgd_need_push_nums": 1}
    (seen,) = Job(one_weight, 1, 1, False, **settings).run(weights)
    np.testing.assert_allclose(seen, [1.0, 0.9, 0.8, 0.7], rtol=1e-5)
    found = Job(one_weight, 1, 2, False, **settings).run(weights)
    np.testing.assert_allclose(min(seen[-1] for seen in found), 1.0 - 3 * 0.55, rtol=1e-5)


def test_geo_exchanges_what_is_left_at_the_end() -> None:
    settings = {"geo_sgd_mode": True, "geo_sgd_need_push_nums": 2}

    def train(trainer: Trainer) -> Any:
        for _ in range(3):
            trainer.step(fed(trainer))
        link = trainer.main._servers.link
        link.flush()
        return trainer.value("w").ravel()[[3, 4]].tolist()

    (found,) = Job(one_row, 2, 1, False, **settings).run(train)
    np.testing.assert_allclose(found, [0.7, 1.0], rtol=1e-5)


@pytest.mark.parametrize("mode", ["sync", "half_async", "async"])
def test_each_step_is_pushed_once(mode: str) -> None:
    """However often its shapes have come before, and whatever their plan has become meanwhile."""
    sizes = [2, 2, 2, 2, 3, 3, 3, 3, 2, 2, 4, 4]

    def train(trainer: Trainer) -> int:
        for size in sizes:
            feed = {"x": np.ones((size, 1), "float32"), "ids": np.arange(size)[:, None]}
            trainer.step(feed, [trainer.loss])
            trainer.main._servers.link.flush()
        return int(trainer.main._servers.link.client.sequence)

    config = {"half_async": True} if mode == "half_async" else {}
    assert Job(one_row, 1, 1, mode == "sync", **config).run(train) == [len(sizes)]


@pytest.mark.parametrize("mode", ["sync", "async", "geo"])
def test_parameters_that_are_not_trained_begin_alike_in_all_trainers(mode: str) -> None:
    """Servers don't have them, and what is trained is trained for one network."""
    drawn = {
        "uniform": fluid.initializer.Uniform(),
        "normal": fluid.initializer.Normal(),
        "truncated": fluid.initializer.TruncatedNormal(),
    }

    def built() -> Any:
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            hidden = fluid.data("x", [None, 1], "float32")
            for name, first in drawn.items():
                kept = fluid.ParamAttr(name=name, initializer=first, trainable=False)
                hidden = fluid.layers.fc(hidden, 4, param_attr=kept, bias_attr=False)
            loss = fluid.layers.mean(fluid.layers.fc(hidden, 1))
            fluid.optimizer.SGD(0.1).minimize(loss)
        return main, startup, loss

    settings = {"geo_sgd_mode": True} if mode == "geo" else {}
    job = Job(built, 1, 2, mode == "sync", **settings)
    one, other = job.run(lambda trainer: [trainer.value(name) for name in drawn])
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first, second)
        assert len(np.unique(first)) == first.size
    assert not np.array_equal(one[0].ravel(), one[1].ravel()[:4])
