"""What each trainer of a test does with layers whose gradients are exchanged in buckets."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.collective.job import job_of_environment
from refluid.fluid.dygraph.parallel import DataParallel as Explicit
from refluid.paddle.amp.scaling import GradScaler
from refluid.paddle.distributed.data_parallel import DataParallel

dygraph = fluid.dygraph
ROWS = 6


class Branches(dygraph.Layer):
    """Layers of random sizes, of which some are used twice, and some only in some steps."""

    def __init__(self, draws: random.Random, sparse: bool) -> None:
        super().__init__()
        sizes = [4, *(draws.randint(1, 40) for _ in range(draws.randint(1, 5))), 4]
        pairs = list(itertools.pairwise(sizes))
        self.chain = dygraph.LayerList([dygraph.Linear(a, b, act="tanh") for a, b in pairs])
        self.beside = dygraph.LayerList([dygraph.Linear(4, 4) for _ in range(3)])
        self.table = dygraph.Embedding([9, 4], is_sparse=sparse)
        self.unused = dygraph.Linear(3, 3)

    def forward(self, x: Any, step: int) -> Any:
        for _ in range(2 if step % 2 else 1):
            for one in self.chain:
                x = one(x)
        rows = fluid.layers.fill_constant([ROWS, 1], "int64", step % 9)
        x = x + fluid.layers.reshape(self.table(rows), [ROWS, 4])
        return x + self.beside[step % 3](x) if step else x


def train(seed: int, how: str) -> list[Any]:
    """What was learned by one of a few ways of training."""
    job = job_of_environment()
    rank, size = (job.rank, job.size) if job else (0, 1)
    draws = random.Random(seed)
    with dygraph.guard(), fluid.unique_name.guard():
        fluid.default_startup_program().random_seed = 3
        layer = Branches(draws, sparse=draws.random() < 0.5)
        begin = np.random.default_rng(seed)
        layer.set_dict(
            {
                name: begin.standard_normal(value.shape).astype("float32") * 0.3
                for name, value in layer.state_dict().items()
            }
        )
        optimizer = fluid.optimizer.Momentum(0.05, 0.9, parameter_list=layer.parameters())
        largest, last = draws.choice([0.0001, 0.001, 25.0]), draws.choice([0.0001, 1.0])
        step = _STEPS[how](layer, optimizer, largest, last)
        data = np.random.default_rng(seed).standard_normal((7, 2, ROWS * 2, 4)).astype("float32")
        for number, parts in enumerate(data):
            step(number, [np.split(one, size)[rank] if size > 1 else one for one in parts])
        return [value.numpy() for value in layer.state_dict().values()]


def _loss(model: Any, step: int, part: Any) -> Any:
    halves = [part] if len(part) == ROWS else np.split(part, 2)
    found = [
        fluid.layers.reduce_mean(fluid.layers.square(model(dygraph.to_variable(one), step)))
        for one in halves
    ]
    return sum(found[1:], found[0]) * (1.0 / len(found))


Step = Callable[[int, list[Any]], None]


def _explicit(layer: Any, optimizer: Any, largest: float, last: float) -> Step:
    model = Explicit(layer, dygraph.prepare_context())
    if model._gradients is not None:
        model._gradients._largest, model._gradients._last = largest * 2**20, last * 2**20

    def step(number: int, parts: list[Any]) -> None:
        loss = model.scale_loss(_loss(model, number, parts[0]))
        loss.backward()
        model.apply_collective_grads()
        optimizer.minimize(loss)
        model.clear_gradients()

    return step


def _implicit(layer: Any, optimizer: Any, largest: float, last: float) -> Step:
    model = DataParallel(layer, None, largest, last)  # type: ignore[arg-type]

    def step(number: int, parts: list[Any]) -> None:
        loss = _loss(model, number, parts[0])
        loss.backward()
        optimizer.minimize(loss)
        model.clear_gradients()

    return step


def _merged(layer: Any, optimizer: Any, largest: float, last: float) -> Step:
    """Two passes for each update, of which the first isn't exchanged by itself in odd steps."""
    model = DataParallel(layer, None, largest, last)  # type: ignore[arg-type]

    def step(number: int, parts: list[Any]) -> None:
        if number % 2:
            with model.no_sync():
                _loss(model, number, parts[0]).backward()
        else:
            _loss(model, number, parts[0]).backward()
        loss = _loss(model, number, parts[1])
        loss.backward()
        optimizer.minimize(loss)
        model.clear_gradients()

    return step


def _merged_explicit(layer: Any, optimizer: Any, largest: float, last: float) -> Step:
    """Two passes before gradients are exchanged: the second adds to what has come."""
    model = Explicit(layer, dygraph.prepare_context())
    del largest, last

    def step(number: int, parts: list[Any]) -> None:
        for part in parts:
            loss = model.scale_loss(_loss(model, number, part))
            loss.backward()
        model.apply_collective_grads()
        optimizer.minimize(loss)
        model.clear_gradients()

    return step


_STEPS = {
    "explicit": _explicit,
    "implicit": _implicit,
    "merged": _merged,
    "merged explicit": _merged_explicit,
}


def train_ways(seeds: list[int]) -> dict[tuple[int, str], list[Any]]:
    """Of each seed and each way."""
    return {(seed, how): train(seed, how) for seed in seeds for how in _STEPS}


def launched() -> list[tuple[int, int]]:
    """Of each step: how many buckets were being exchanged when its pass ended, and how many are."""
    with dygraph.guard():
        layer = Branches(random.Random(5), sparse=False)
        model = Explicit(layer, dygraph.prepare_context())
        gradients = model._gradients
        assert gradients is not None
        gradients._largest, gradients._last, found = 100.0, 100.0, []
        for _ in range(3):
            model.scale_loss(_loss(model, 1, np.ones((ROWS, 4), "float32"))).backward()
            found.append((gradients._pass.launched, len(gradients._buckets)))
            model.apply_collective_grads()
            model.clear_gradients()
        return found


def lacking(unused: bool) -> list[Any]:
    """The first trainer uses a layer that the others don't."""
    job = job_of_environment()
    rank = job.rank if job else 0
    with dygraph.guard(), fluid.unique_name.guard():
        fluid.default_startup_program().random_seed = 3
        layer = Branches(random.Random(3), sparse=False)
        model = DataParallel(layer, find_unused_parameters=unused)
        for number in (1, 1 if rank else 2):
            model.clear_gradients()
            _loss(model, number, np.ones((ROWS, 4), "float32")).backward()
        grads = [one.beside[index].weight.gradient() for one in [layer] for index in range(3)]
        return [None if one is None else float(np.abs(one).sum()) for one in grads]


def scaled(planted: bool) -> tuple[list[float], list[float], bool]:
    """Scales, sums of the parameters after each step, and whether all steps were made.

    planted: the second trainer has an infinite gradient in its third step.
    """
    job = job_of_environment()
    rank = job.rank if job else 0
    with dygraph.guard(), fluid.unique_name.guard():
        fluid.default_startup_program().random_seed = 3
        layer = dygraph.Linear(4, 1)
        model = DataParallel(layer)
        optimizer = fluid.optimizer.SGD(0.1, parameter_list=layer.parameters())
        scaler = GradScaler(init_loss_scaling=1024.0, incr_every_n_steps=3)
        scales, sums = [], []
        for number in range(6):
            fed = np.full((ROWS, 4), 0.5 + rank, "float32")
            if planted and rank == 1 and number == 2:
                fed[0, 0] = np.inf
            loss = fluid.layers.reduce_mean(model(dygraph.to_variable(fed)))
            big = scaler.scale(loss)
            big.backward()
            scaler.minimize(optimizer, big)
            model.clear_gradients()
            scales.append(scaler.get_init_loss_scaling())
            sums.append(float(layer.weight.numpy().sum()))
        return scales, sums, len(set(sums)) == 6
