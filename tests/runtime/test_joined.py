"""Replicas that run as one step of one thread compute what they compute in threads of their own."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet

layers = fluid.layers
STEPS, ROWS = 8, 12
Made = tuple[Any, list[Any]]


def _mlp() -> Made:
    hidden = layers.fc(fluid.data("x", [None, 6]), 16, act="relu")
    out = layers.fc(hidden, 5, act="tanh")
    return out, []


def _sparse() -> Made:
    ids = fluid.data("ids", [None, 1], "int64")
    table = fluid.ParamAttr(name="table")
    looked = [fluid.embedding(ids, [20, 6], is_sparse=True, param_attr=table) for _ in range(2)]
    flat = [layers.reshape(one, [-1, 6]) for one in looked]
    return layers.fc(layers.concat([*flat, fluid.data("x", [None, 6])], axis=1), 5), []


def _dense_table() -> Made:
    ids = fluid.data("ids", [None, 1], "int64")
    flat = layers.reshape(fluid.embedding(ids, [20, 6]), [-1, 6])
    return layers.fc(layers.layer_norm(flat + fluid.data("x", [None, 6])), 5), []


def _normalised() -> Made:
    hidden = layers.batch_norm(layers.fc(fluid.data("x", [None, 6]), 8), act="relu")
    return layers.fc(hidden, 5), []


def _images() -> Made:
    image = layers.reshape(fluid.data("x", [None, 6]), [-1, 1, 2, 3])
    return layers.fc(layers.conv2d(image, 4, 2, act="relu"), 5), []


def _products() -> Made:
    x = layers.fc(fluid.data("x", [None, 6]), [6][0])
    heads = layers.transpose(layers.reshape(x, [-1, 3, 2]), [0, 2, 1])
    mixed = layers.matmul(heads, heads, transpose_y=True)
    return layers.fc(layers.softmax(mixed), 5, num_flatten_dims=1), []


NETWORKS = {one.__name__.strip("_"): one for one in (
    _mlp, _sparse, _dense_table, _normalised, _images, _products,
)}  # fmt: skip
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: fluid.optimizer.SGD(0.1),
    "adam": lambda: fluid.optimizer.Adam(0.01),
    "momentum": lambda: fluid.optimizer.Momentum(
        0.1, 0.9, regularization=fluid.regularizer.L2Decay(1e-3)
    ),
}


class Training:
    """A network on two or three places, in a scope of its own."""

    def __init__(
        self,
        build: Callable[[], Made] = _mlp,
        optimizer: str = "sgd",
        places: int = 2,
        reduce: bool = False,
        seed: int = 11,
    ) -> None:
        self.main, startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.main.random_seed = startup.random_seed = seed
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            out, _ = build()
            label = fluid.data("label", [None, 1], "int64")
            self.loss = layers.mean(layers.softmax_with_cross_entropy(out, label))
            self.out = out
            OPTIMIZERS[optimizer]().minimize(self.loss)
        self.executor = fluid.Executor(fluid.CPUPlace())
        self.executor.run(startup, scope=self.scope)
        strategy = fluid.BuildStrategy()
        if reduce:
            strategy.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
        self.program = fluid.CompiledProgram(self.main).with_data_parallel(
            self.loss.name, strategy, places=fluid.cpu_places(places)
        )

    def step(self, seed: int, rows: int = ROWS) -> list[Any]:
        random = np.random.RandomState(seed)
        feed = {
            "x": random.randn(rows, 6).astype("float32"),
            "label": random.randint(0, 5, (rows, 1)),
        }
        if self.main.global_block().has_var("ids"):
            feed["ids"] = random.randint(0, 20, (rows, 1))
        fetched: list[Any] = self.executor.run(
            self.program, feed, [self.loss, self.out], scope=self.scope
        )
        return fetched

    def steps(self, count: int = STEPS) -> list[Any]:
        return [self.step(seed) for seed in range(count)]

    @property
    def joined(self) -> bool:
        """Whether the last plans run joined."""
        replicated = self.program._replicated
        assert replicated is not None
        *_, (_, found) = replicated._plans.values()
        *_, (_, joined) = found.values()
        return joined is not None and joined.is_used

    def parameters(self) -> list[np.ndarray]:
        cells = (self.scope.find_var(one.name) for one in self.main.all_parameters())
        return [np.array(cell.get_tensor()) for cell in cells if cell is not None]


@pytest.fixture
def in_threads() -> Callable[..., Training]:
    """Makes a training that has run so many steps in threads."""

    def train(*arguments: Any, steps: int = STEPS, **options: Any) -> tuple[Training, list[Any]]:
        with _threads():
            made = Training(*arguments, **options)
            found = made.steps(steps)
            assert not made.joined
        return made, found

    return train


@contextmanager
def _threads() -> Iterator[None]:
    fluid.set_flags({"FLAGS_refluid_replicas": "threads"})
    yield
    fluid.set_flags({"FLAGS_refluid_replicas": "auto"})


def _agree(one: list[Any], other: list[Any]) -> None:
    for first, second in zip(one, other, strict=True):
        for a, b in zip(first, second, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("reduce", [False, True], ids=["all-reduce", "reduce"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("network", NETWORKS)
def test_losses_and_outputs(in_threads, network: str, optimizer: str, reduce: bool) -> None:
    other, expected = in_threads(NETWORKS[network], optimizer, reduce=reduce)
    run = Training(NETWORKS[network], optimizer, reduce=reduce)
    _agree(run.steps(), expected)
    _agree([run.parameters()], [other.parameters()])
    assert run.joined or network in ("images", "normalised")


def test_three_replicas(in_threads) -> None:
    _, expected = in_threads(_mlp, "adam", 3)
    run = Training(_mlp, "adam", 3)
    _agree(run.steps(), expected)
    assert run.joined


def test_batches_that_do_not_part_evenly_run_in_threads(in_threads) -> None:
    def train(run: Training) -> list[Any]:
        rows = [ROWS] * 6 + [ROWS - 1] + [ROWS] * 2 + [ROWS - 1] * 2 + [ROWS]
        return [run.step(seed, count) for seed, count in enumerate(rows)]

    with _threads():
        expected = train(Training(_mlp, "momentum"))
    run = Training(_mlp, "momentum")
    _agree(train(run), expected)
    assert run.joined


def test_a_parameter_that_the_user_sets_is_used_by_all() -> None:
    run = Training()
    run.steps()
    for parameter in run.main.all_parameters():
        cell = run.scope.find_var(parameter.name)
        assert cell is not None
        cell.get_tensor().set(np.zeros(parameter.shape, "float32"), fluid.CPUPlace())
    loss, out = run.step(99)
    assert run.joined
    assert not out.any()
    np.testing.assert_allclose(loss, np.log(5), rtol=1e-6)


def test_an_error_names_the_operator_and_training_goes_on() -> None:
    run = Training(_sparse)
    run.steps()
    bad = {
        "x": np.zeros((ROWS, 6), "float32"),
        "label": np.zeros((ROWS, 1), "int64"),
        "ids": np.full((ROWS, 1), 1000),
    }
    with pytest.raises(EnforceNotMet, match=r"operator lookup_table\w* failed[\s\S]*test_joined"):
        run.executor.run(run.program, bad, [run.loss, run.out], scope=run.scope)
    assert np.isfinite(run.step(5)[0]).all()
    assert run.joined


def test_random_numbers_go_on() -> None:
    def dropped() -> Made:
        x = fluid.data("x", [None, 6])
        return layers.fc(layers.dropout(layers.fc(x, 64) * 0.0 + 1.0, 0.5), 5), []

    run = Training(dropped, seed=0)
    outs = [out for _, out in run.steps(12)]
    halves = [(out[: ROWS // 2], out[ROWS // 2 :]) for out in outs]
    assert all(not np.array_equal(one, other) for one, other in halves)
    assert len({one.tobytes() for one in outs}) == len(outs)


def test_what_has_other_effects_stays_in_threads(caplog: pytest.LogCaptureFixture) -> None:
    def printed() -> Made:
        return layers.fc(layers.Print(fluid.data("x", [None, 6]), message="x"), 5), []

    run = Training(printed)
    with caplog.at_level(logging.INFO, logger="refluid"):
        run.steps()
    assert not run.joined
    assert "replicas stay in their threads: operator print has effects" in caplog.text
