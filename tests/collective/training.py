"""What each trainer of a test does."""

from __future__ import annotations

from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.collective.job import job_of_environment
from tests.collective.networks import batches, built, parameters, share

OPTIMIZERS = {
    "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9),
    "adam": lambda: fluid.optimizer.Adam(0.05),
}


def train(
    optimizer: str, options: dict[str, Any], places: int, sparse: bool
) -> tuple[list[float], dict[str, Any]]:
    """Losses of this trainer, and what it has learned."""
    job = job_of_environment()
    rank, size = (job.rank, job.size) if job else (0, 1)
    main, startup, loss = built(OPTIMIZERS[optimizer], seed=3 + rank, sparse=sparse)
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = size, rank
    for name, value in options.items():
        setattr(strategy, name, value)
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        return _trained(executor, main, startup, loss, strategy, places, rank, size)


def _trained(
    executor: Any,
    main: Any,
    startup: Any,
    loss: Any,
    strategy: Any,
    places: int,
    rank: int,
    size: int,
) -> tuple[list[float], dict[str, Any]]:
    executor.run(startup)
    compiled = fluid.CompiledProgram(main).with_data_parallel(
        loss.name, build_strategy=strategy, places=[fluid.CPUPlace()] * places
    )
    losses = []
    for batch in batches():
        fed = share(batch, rank, size)
        (found,) = executor.run(compiled, feed=fed, fetch_list=[loss])
        losses.append(float(np.mean(found)))
    return losses, parameters(main)


REDUCE = {"reduce_strategy": fluid.BuildStrategy.ReduceStrategy.Reduce}
CASES: dict[str, tuple[str, dict[str, Any], int, bool]] = {
    "plain": ("momentum", {}, 1, False),
    "one by one": ("momentum", {"fuse_all_reduce_ops": False}, 1, True),
    "reduce": ("adam", REDUCE, 1, False),
    "two places": ("adam", {}, 2, True),
}


def train_all(cases: list[str]) -> list[tuple[list[float], dict[str, Any]]]:
    """Those cases one after the other, in one job."""
    return [train(*CASES[one]) for one in cases]
