"""Pipelines of two processes beside one process, a thread each: times of a step, and memory.

    python -m benchmarks.pipelines [--rounds 5] [--record]

Eight layers of 512, batch 4096, Momentum. The ways take turns; a round's time is the median of
three steps of the slower stage. Memory is the most that a step of either stage holds beyond what it
began with.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.report import record
from refluid import fluid
from refluid.measure.peak import peak_bytes
from refluid.paddle.distributed import fleet

PAGE = Path(__file__).resolve().parent.parent / "docs" / "collective.md"
WIDTH, LAYERS, BATCH, STEPS = 512, 8, 4096, 3
# What is shown, and pipeline_configs; None: one process.
WAYS: dict[str, dict[str, Any] | None] = {
    "one process": None,
    "2 stages, 1 micro-batch": {"accumulate_steps": 1},
    "2 stages, 2 micro-batches": {"accumulate_steps": 2},
    "2 stages, 4 micro-batches": {"accumulate_steps": 4},
    "2 stages, 8 micro-batches": {"accumulate_steps": 8},
    "2 stages, 8 micro-batches, F-then-B": {"accumulate_steps": 8, "schedule_mode": "F-then-B"},
}


def network() -> Any:
    """The loss, half of the layers on each of two devices."""
    with fluid.device_guard("gpu:0"):
        hidden = fluid.data("x", [None, WIDTH], "float32")
    for layer in range(LAYERS):
        with fluid.device_guard(f"gpu:{layer * 2 // LAYERS}"):
            hidden = fluid.layers.fc(hidden, WIDTH, act="relu")
    with fluid.device_guard("gpu:1"):
        return fluid.layers.reduce_mean(fluid.layers.square(hidden))


class Way:
    """A way to train, in this process. config: of pipelines; None: the first process alone."""

    def __init__(self, config: dict[str, Any] | None) -> None:
        optimizer = fluid.optimizer.Momentum(0.001, 0.9)
        self.takes_part = config is not None or fleet.worker_index() == 0
        if config is not None:
            strategy = fleet.DistributedStrategy()
            strategy.pipeline, strategy.pipeline_configs = True, config
            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        self.main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(self.main, startup):
            optimizer.minimize(network())
        self.executor, self.scope = fluid.Executor(), fluid.Scope()
        self.executor.run(startup, scope=self.scope)
        draws = np.random.default_rng(0)
        self.feed = {"x": draws.standard_normal((BATCH, WIDTH)).astype("float32")}

    def step(self) -> None:
        """One step, where this process takes part."""
        if self.takes_part:
            self.executor.run(self.main, self.feed, scope=self.scope)


def measured(rounds: int) -> dict[str, tuple[list[float], float]]:
    """Seconds of a step by rounds, and the MB that this process holds in it."""
    torch.set_num_threads(1)
    fleet.init(is_collective=True)
    ways = {name: Way(config) for name, config in WAYS.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-1, rounds):
        for name, way in [*ways.items()][:: 1 if number % 2 else -1]:
            own = []
            fleet.barrier_worker()
            for _ in range(STEPS):
                begin = time.perf_counter()
                way.step()
                own.append(time.perf_counter() - begin)
            if number >= 0:
                times[name].append(statistics.median(own))
    held = {name: peak_bytes(way.step) / 1e6 for name, way in ways.items()}
    return {name: (times[name], held[name]) for name in ways}


def main() -> None:
    from benchmarks.pipelines import measured  # by a name that the processes can import
    from tests.collective.jobs import as_trainers

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true", help="write the table to the page")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = as_trainers(2, measured, asked.rounds, folder=Path(folder))
    rows = ["| | a step | times as fast | memory of a process |", "|---|---|---|---|"]
    alone = found[0]["one process"][0]
    for name in WAYS:
        took = [max(both) for both in zip(*(one[name][0] for one in found), strict=True)]
        ratios = sorted(one / time for one, time in zip(alone, took, strict=True))
        shown = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        held = max(one[name][1] for one in found)
        rows.append(
            f"| {name} | {statistics.median(took) * 1e3:.0f} ms | {shown} | {held:.0f} MB |"
        )
    print("\n".join(rows))
    if asked.record:
        record(PAGE, "pipelines", "\n".join(rows))


if __name__ == "__main__":
    main()
