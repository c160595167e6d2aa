"""Two replicas with one thread each against one place with two threads: samples per second.

    python benchmarks/replicas.py
    python benchmarks/replicas.py --networks ctr --record

Same network, same batch in all, same start. Losses of the first steps must agree, or the exit
status is 1. Then blocks of steps alternate in one process, and medians are compared. It needs a
machine with two cores that nothing else uses.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.machine import facts
from benchmarks.report import record
from refluid import fluid
from refluid.measure.timing import Feed, Ratio, Times, TrainStep, alternate, first_losses, ratio

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
COLUMNS = ("network", "one place, 2 threads", "CPU_NUM=2, AllReduce", "CPU_NUM=2, Reduce")
REPLICAS, TOLERANCE, WANTED = 2, 1e-4, 0.9
ALONE, ALL_REDUCE, REDUCE = COLUMNS[1:]
layers = fluid.layers


@dataclass(frozen=True)
class Network:
    """A loss, an optimizer and the batches; `steps` are those of one timed block."""

    name: str
    title: str
    batch: int
    steps: int
    build: Callable[[], Any]
    optimizer: Callable[[], Any]
    feed: Callable[[np.random.Generator, int], Feed]

    def feeds(self) -> list[Feed]:
        """The same random batches every time."""
        random = np.random.default_rng(7)
        return [self.feed(random, self.batch) for _ in range(32)]


def _classifier(hidden: Any, classes: int) -> Any:
    label = fluid.data("label", [None, 1], "int64")
    logits = layers.fc(hidden, classes)
    return layers.mean(layers.softmax_with_cross_entropy(logits, label))


def _perceptron(widths: list[int]) -> Any:
    hidden = fluid.data("x", [None, 784])
    for width in widths:
        hidden = layers.fc(hidden, width, act="relu")
    return _classifier(hidden, 10)


def _images(random: np.random.Generator, batch: int) -> Feed:
    return {
        "x": random.standard_normal((batch, 784), np.float32),
        "label": random.integers(0, 10, (batch, 1)),
    }


def _looked_up(ids: Any, table: Any) -> Any:
    return fluid.embedding(ids, [1_000_001, 10], is_sparse=True, param_attr=table)


def _clicks() -> Any:
    table = fluid.ParamAttr(name="table")
    ids = [fluid.data(f"slot{number}", [None, 1], "int64") for number in range(26)]
    words = [layers.reshape(_looked_up(one, table), [-1, 10]) for one in ids]
    hidden = layers.concat([*words, fluid.data("dense", [None, 13])], axis=1)
    for _ in range(3):
        hidden = layers.fc(hidden, 400, act="relu")
    return _classifier(hidden, 2)


def _click_feed(random: np.random.Generator, batch: int) -> Feed:
    slots = {f"slot{n}": random.integers(0, 1_000_001, (batch, 1)) for n in range(26)}
    return slots | {
        "dense": random.standard_normal((batch, 13), np.float32),
        "label": random.integers(0, 2, (batch, 1)),
    }


def _adam() -> Any:
    return fluid.optimizer.Adam(1e-3)


NETWORKS = (
    Network("mlp", "MLP 784-128-64-10, batch 64, Adam", 64, 100,
            lambda: _perceptron([128, 64]), _adam, _images),
    Network("wide", "MLP 784-1024-1024-10, batch 256, Adam", 256, 20,
            lambda: _perceptron([1024, 1024]), _adam, _images),
    Network("ctr", "CTR, 26 slots of 1,000,001 x 10, 3 x 400, batch 1000, SGD", 1000, 10,
            _clicks, lambda: fluid.optimizer.SGD(1e-3), _click_feed),
    Network("deep", "60 layers of 32, batch 512, Momentum", 512, 30,
            lambda: _perceptron([32] * 60), lambda: fluid.optimizer.Momentum(1e-3, 0.9), _images),
)  # fmt: skip


class Trained:
    """A network in a scope of its own, run as `mode` says; all start from the same weights."""

    def __init__(self, network: Network, mode: str) -> None:
        self.mode = mode
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 3
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            self.loss = network.build()
            network.optimizer().minimize(self.loss)
        self.scope, self.executor = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        self.executor.run(startup, scope=self.scope)
        self.program: Any = main
        if mode != ALONE:
            build = fluid.BuildStrategy()
            build.reduce_strategy = fluid.BuildStrategy.ReduceStrategy(int(mode == REDUCE))
            self.program = fluid.CompiledProgram(main).with_data_parallel(
                self.loss.name, build, places=fluid.cpu_places(REPLICAS)
            )

    def __call__(self, feed: Feed) -> float:
        (loss,) = self.executor.run(self.program, feed, [self.loss], scope=self.scope)
        return float(np.mean(loss))


@dataclass(frozen=True)
class Result:
    """Step times by mode, and whether all modes had the same losses."""

    network: Network
    times: dict[str, Times]
    agrees: bool

    def ratio(self, mode: str) -> Ratio:
        """How many times the throughput of one place the replicas have."""
        return ratio(self.times[mode], self.times[ALONE])

    def cells(self) -> tuple[str, ...]:
        alone = self.network.batch / self.times[ALONE].median
        ratios = (self.ratio(mode) for mode in (ALL_REDUCE, REDUCE))
        texts = (f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})" for one in ratios)
        return (self.network.title, f"{alone:,.0f} samples/s", *texts)


def measure(network: Network, blocks: int) -> Result:
    """All modes in turns."""
    feeds = network.feeds()
    steps: dict[str, TrainStep] = {
        mode: Trained(network, mode) for mode in (ALONE, ALL_REDUCE, REDUCE)
    }
    losses = [first_losses(step, feeds) for step in steps.values()]
    agrees = all(np.allclose(one, losses[0], rtol=TOLERANCE) for one in losses)
    times = alternate(steps, feeds, blocks=blocks, steps=network.steps, warmup=5)
    return Result(network, times, agrees)


def main(arguments: list[str] | None = None) -> int:
    names = [network.name for network in NETWORKS]
    parser = argparse.ArgumentParser(description="Compare two replicas with one place.")
    parser.add_argument("--networks", nargs="+", choices=names, default=names)
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--record", action="store_true", help=f"update docs/{PAGE.name}")
    options = parser.parse_args(arguments)
    torch.set_num_threads(REPLICAS)
    chosen = [network for network in NETWORKS if network.name in options.networks]
    results = [measure(network, options.blocks) for network in chosen]
    caption = ", ".join(f"{name} {value}" for name, value in facts("cpu").items())
    table = Table(*COLUMNS, caption=caption)
    for result in results:
        slow = max(result.ratio(mode).value for mode in (ALL_REDUCE, REDUCE)) < WANTED
        style = "red" if not result.agrees else "yellow" if slow else None
        table.add_row(*result.cells(), style=style)
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if options.record:
        rows = [COLUMNS, ("---",) * len(COLUMNS), *(result.cells() for result in results)]
        text = "\n".join("| " + " | ".join(row) + " |" for row in rows)
        record(PAGE, "replicas", f"{text}\n\nMeasured: {caption}.")
    return 0 if all(result.agrees for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
