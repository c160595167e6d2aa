"""Small networks trained on several CPU places, for tests of replicas."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from refluid import fluid

layers = fluid.layers
SCALES = fluid.BuildStrategy.GradientScaleStrategy
STEPS, ROWS = 8, 12


def mlp() -> Any:
    hidden = layers.fc(fluid.data("x", [None, 6]), 16, act="relu")
    return layers.fc(hidden, 5, act="tanh")


def sparse() -> Any:
    ids = fluid.data("ids", [None, 1], "int64")
    table = fluid.ParamAttr(name="table")
    looked = [fluid.embedding(ids, [20, 6], is_sparse=True, param_attr=table) for _ in range(2)]
    flat = [layers.reshape(one, [-1, 6]) for one in looked]
    return layers.fc(layers.concat([*flat, fluid.data("x", [None, 6])], axis=1), 5)


def dense_table() -> Any:
    ids = fluid.data("ids", [None, 1], "int64")
    flat = layers.reshape(fluid.embedding(ids, [20, 6]), [-1, 6])
    return layers.fc(layers.layer_norm(flat + fluid.data("x", [None, 6])), 5)


def normalised() -> Any:
    hidden = layers.batch_norm(layers.fc(fluid.data("x", [None, 6]), 8), act="relu")
    return layers.fc(hidden, 5)


def images() -> Any:
    image = layers.reshape(fluid.data("x", [None, 6]), [-1, 1, 2, 3])
    return layers.fc(layers.conv2d(image, 4, 2, act="relu"), 5)


def products() -> Any:
    x = layers.fc(fluid.data("x", [None, 6]), [6][0])
    heads = layers.transpose(layers.reshape(x, [-1, 3, 2]), [0, 2, 1])
    mixed = layers.matmul(heads, heads, transpose_y=True)
    return layers.fc(layers.softmax(mixed), 5, num_flatten_dims=1)


NETWORKS = {one.__name__: one for one in (
    mlp, sparse, dense_table, normalised, images, products,
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
        build: Callable[[], Any] = mlp,
        optimizer: str | Callable[[], Any] = "sgd",
        places: int = 2,
        reduce: bool = False,
        seed: int = 11,
        strategy: fluid.BuildStrategy | None = None,
        iterations: int = 1,
    ) -> None:
        self.main, startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.main.random_seed = startup.random_seed = seed
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            out = build()
            label = fluid.data("label", [None, 1], "int64")
            self.loss = layers.mean(layers.softmax_with_cross_entropy(out, label))
            self.out = out
            made = OPTIMIZERS[optimizer] if isinstance(optimizer, str) else optimizer
            self.test = self.main.clone(for_test=True)
            made().minimize(self.loss)
        self.executor = fluid.Executor(fluid.CPUPlace())
        self.executor.run(startup, scope=self.scope)
        strategy = strategy or fluid.BuildStrategy()
        execution = fluid.ExecutionStrategy()
        execution.num_iteration_per_run = iterations
        if reduce:
            strategy.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
        self.scaled = strategy.gradient_scale_strategy == SCALES.Customized
        self.program = fluid.CompiledProgram(self.main).with_data_parallel(
            self.loss.name, strategy, execution, places=fluid.cpu_places(places)
        )

    def feed(self, seed: int, rows: int = ROWS) -> dict[str, Any]:
        """A batch."""
        random = np.random.RandomState(seed)
        feed = {
            "x": random.randn(rows, 6).astype("float32"),
            "label": random.randint(0, 5, (rows, 1)),
        }
        if self.main.global_block().has_var("ids"):
            feed["ids"] = random.randint(0, 20, (rows, 1))
        if self.scaled:
            feed[f"{self.loss.name}@GRAD"] = np.full(len(self.program._places or ()), 0.25, "f4")
        return feed

    def step(self, seed: int, rows: int = ROWS) -> list[Any]:
        """Loss and outputs of a step with that batch."""
        return self.run(self.feed(seed, rows))

    def run(self, feed: Any, **options: Any) -> list[Any]:
        """Loss and outputs of a step, or what else `options` say."""
        given = {"fetch_list": [self.loss, self.out], "scope": self.scope, **options}
        found: list[Any] = self.executor.run(self.program, feed, **given)
        return found

    def steps(self, count: int = STEPS) -> list[Any]:
        return [self.step(seed) for seed in range(count)]

    @property
    def batched(self) -> bool:
        """Whether there are batched steps."""
        replicated = self.program._replicated
        assert replicated is not None
        made = [step for one in replicated.group.cache.values() for step in one.steps.values()]
        return any(step.is_batched for step in made)

    def value(self, name: str, rank: int = 0) -> np.ndarray:
        """A variable of one replica."""
        assert self.program._replicated is not None
        cell = self.program._replicated.scopes[rank].find_var(name)
        assert cell is not None
        return np.array(cell.get_tensor())

    def set(self, name: str, value: Any) -> None:
        """Gives a variable of the user's scope a value."""
        cell = self.scope.find_var(name)
        assert cell is not None
        cell.get_tensor().set(value, fluid.CPUPlace())

    def parameters(self) -> list[np.ndarray]:
        cells = (self.scope.find_var(one.name) for one in self.main.all_parameters())
        return [np.array(cell.get_tensor()) for cell in cells if cell is not None]


@contextmanager
def in_threads_only() -> Iterator[None]:
    """Replicas are not batched within the block."""
    fluid.set_flags({"FLAGS_refluid_replicas": "threads"})
    try:
        yield
    finally:
        fluid.set_flags({"FLAGS_refluid_replicas": "auto"})


def agree(one: list[Any], other: list[Any]) -> None:
    """The same numbers, but for rounding."""
    for first, second in zip(one, other, strict=True):
        for a, b in zip(first, second, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def as_in_threads(train: Callable[[Training], list[Any]]) -> None:
    """The same losses in threads and batched."""
    with in_threads_only():
        expected = train(Training(mlp, "momentum"))
    run = Training(mlp, "momentum")
    agree(train(run), expected)
    assert run.batched
