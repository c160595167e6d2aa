"""Programs with split layers, and the same with whole ones, of random sizes."""

from __future__ import annotations

import random
import tempfile
from typing import Any

import numpy as np
import torch

import refluid.fluid as fluid
from refluid.paddle import distributed
from refluid.paddle.distributed import fleet
from tests.collective.networks import share
from tests.collective.refusals import said_to

STEPS, ROWS, WORDS = 20, 8, 3
CLIP = lambda: fluid.clip.GradientClipByGlobalNorm(0.05)  # noqa: E731
EACH = lambda: fluid.clip.GradientClipByNorm(0.02)  # noqa: E731
OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda: fluid.optimizer.SGD(0.05),
    "momentum": lambda: fluid.optimizer.Momentum(0.01, 0.9, use_nesterov=True),
    "adam": lambda: fluid.optimizer.Adam(0.01),
    "sgd, clipped": lambda: fluid.optimizer.SGD(0.5, grad_clip=CLIP()),
    "adam, clipped": lambda: fluid.optimizer.Adam(0.01, grad_clip=CLIP()),
    "momentum, each clipped": lambda: fluid.optimizer.Momentum(0.5, 0.9, grad_clip=EACH()),
}
Trained = tuple[list[float], dict[str, np.ndarray]]


class Case:
    """Sizes, weights and data that follow from a seed. parts: in how many parts layers are split,
    1 for whole ones. garbage: what is added to values that others' take the place of.
    normed: whether there is a batch norm."""

    def __init__(self, seed: int, parts: int, own: int, garbage: bool, normed: bool) -> None:
        draws, self.parts, self.own, self.garbage = random.Random(seed), parts, own, garbage
        self.normed = normed
        self.vocabulary, self.width, self.inner = (4 * draws.randint(1, 5) for _ in range(3))
        self.numbers, self.made = np.random.default_rng(seed), dict[str, np.ndarray]()

    def batches(self) -> list[dict[str, Any]]:
        """What all workers together are fed."""
        draws = np.random.default_rng(5)
        return [
            {
                "ids": draws.integers(0, self.vocabulary, (ROWS, WORDS)).astype("int64"),
                "y": draws.standard_normal((ROWS, 1)).astype("float32"),
            }
            for _ in range(STEPS)
        ]

    def attr(self, name: str, shape: tuple[int, ...], axis: int | None = None) -> Any:
        """Of a parameter that is split along an axis, or whole."""
        value = self.numbers.standard_normal(shape).astype("float32") * 0.25
        split = axis is not None and self.parts > 1
        if split:
            value = np.split(value, self.parts, axis)[self.own]
        if self.garbage or (not split and self.own):
            value = value + 7
        start = fluid.initializer.NumpyArrayInitializer(value)
        return fluid.ParamAttr(name=name, initializer=start)

    def linear(self, x: Any, name: str, size: tuple[int, int], axis: int, gather: bool) -> Any:
        """A layer, split or whole."""
        weight = self.attr(f"{name}.w", size, axis)
        bias = self.attr(f"{name}.b", size[1:], 0 if axis else None)
        if self.parts > 1:
            kind = {"axis": axis, "num_partitions": self.parts, "gather_out": gather}
            return distributed.split(x, size, "linear", weight_attr=weight, bias_attr=bias, **kind)
        return fluid.layers.fc(x, size[1], num_flatten_dims=2, param_attr=weight, bias_attr=bias)

    def loss(self) -> Any:
        """Of the network."""
        return self.second(self.first())

    def first(self) -> Any:
        """An embedding and two layers."""
        with fluid.device_guard("gpu:0"):
            ids = fluid.data("ids", [None, WORDS], "int64")
            table = self.attr("table", (self.vocabulary, self.width), 0)
            if self.parts > 1:
                size = self.vocabulary, self.width
                x = distributed.split(
                    ids, size, "embedding", num_partitions=self.parts, weight_attr=table
                )
            else:
                x = fluid.embedding(ids, [self.vocabulary, self.width], param_attr=table)
            x = fluid.layers.tanh(self.linear(x, "in", (self.width, self.inner), 1, False))
            return self.linear(x, "out", (self.inner, self.width), 0, True)

    def second(self, x: Any) -> Any:
        """Two more layers and the loss."""
        layers = fluid.layers
        with fluid.device_guard("gpu:1"):
            x = layers.tanh(self.linear(x, "wide", (self.width, self.inner), 1, True))
            if self.normed:
                scale, shift = (self.attr(f"norm.{one}", (self.inner,)) for one in "wb")
                x = layers.batch_norm(x, param_attr=scale, bias_attr=shift, data_layout="NHWC")
            x = self.linear(x, "back", (self.inner, self.width), 0, True)
            attr, bias = self.attr("last.w", (self.width, 1)), self.attr("last.b", (1,))
            found = layers.fc(layers.reduce_mean(x, 1), 1, param_attr=attr, bias_attr=bias)
            y = fluid.data("y", [None, 1])
            return layers.reduce_mean(layers.square_error_cost(found, y))


def train(seed: int, optimizer: str, parts: int, fields: dict[str, Any] | None = None) -> Trained:
    """Losses, none at a stage that knows none, and the parameters that this worker has."""
    rank, size = fleet.worker_index(), fleet.worker_num()
    fields = fields or {}
    alike = parts * (2 if "pipeline" in fields and size > 1 else 1)
    batch, own = rank // alike, rank % parts
    case = Case(seed, parts, own, batch > 0, "sync_batch_norm" in fields)
    strategy = fleet.DistributedStrategy()
    if parts > 1:
        strategy.tensor_parallel = True
        strategy.tensor_parallel_configs = {"tensor_parallel_degree": parts}
    for name, value in fields.items():
        setattr(strategy, name, value() if callable(value) else value)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = case.loss()
        fleet.distributed_optimizer(OPTIMIZERS[optimizer](), strategy).minimize(loss)
    executor, losses = fluid.Executor(fluid.CPUPlace()), []
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        for fed in case.batches():
            part = share(fed, batch, size // alike)
            (found,) = executor.run(main, feed=part, fetch_list=[loss])
            losses += [] if found is None else [float(found)]
        learned = values(main)
        with tempfile.TemporaryDirectory() as folder:
            fleet.save_persistables(executor, folder, main)
            with fluid.scope_guard(fluid.Scope()):
                fluid.io.load_persistables(executor, folder, main)
                whole = values(main)
                for name, value in learned.items():
                    np.testing.assert_array_equal(whole[name], value, name)
        return losses, whole


def values(main: Any) -> dict[str, np.ndarray]:
    """The parameters that this worker has."""
    cells = map(
        fluid.global_scope().find_var, (p.name for p in main.global_block().all_parameters())
    )
    return {
        cell.name: np.array(cell.get_tensor())
        for cell in cells
        if cell is not None and isinstance(cell.value, torch.Tensor)
    }


def train_all(cases: list[tuple[Any, ...]]) -> list[Trained]:
    """By each of several cases."""
    fleet.init(is_collective=True)
    return [train(*one) for one in cases]


def refuse(folder: str) -> list[str]:
    """What is said of what can't be."""
    fleet.init(is_collective=True)
    own = fleet.worker_index()
    main, startup = fluid.Program(), fluid.Program()
    found: list[str] = []
    tried = said_to(found)
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 6])
        split = distributed.split
        tried(lambda: split(x, (6, 7), "linear", axis=1, num_partitions=2))
        tried(lambda: split(x, (8, 4), "linear", axis=0, num_partitions=2))
        tried(lambda: split(x, (6, 4), "linear", axis=0, num_partitions=3))
        tried(lambda: split(x, (6, 4), "conv", num_partitions=2))
        y = split(x, (6, 4), "linear", axis=1, num_partitions=2)
        loss = fluid.layers.reduce_mean(y)
        strategy = fleet.DistributedStrategy()
        strategy.tensor_parallel = True
        strategy.tensor_parallel_configs = {"tensor_parallel_degree": 2, "tensor_init_seed": 5}
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        mean = fluid.layers.reduce_mean(split(fluid.data("x", [None, 6]), (6, 4), "linear"))
        other = split(fluid.data("z", [None, 6]), (6, 4), "linear", 1, 2)
        total = mean + fluid.layers.reduce_mean(other)
        lamb = fluid.optimizer.Lamb(0.1)
        tried(lambda: fleet.distributed_optimizer(lamb, strategy).minimize(total))
    executor = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        weight = next(iter(values(main).values()))
        found.append(str(float(weight[0, 0])))
        tried(lambda: fluid.io.save_inference_model(f"{folder}/m{own}", ["x"], [y], executor, main))
        fleet.save_persistables(executor, f"{folder}/{own}", main)
        fleet.barrier_worker()
        other = f"{folder}/{1 - own}"
        tried(lambda: fluid.io.load_persistables(executor, other, main))
        tried(lambda: fleet.save_persistables(executor, other, main))
    return found
