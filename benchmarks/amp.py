"""float32 against mixed precision: step times in turns, in one process.

    python -m benchmarks.amp [--blocks 7] [--threads 1]

Prints one row per network: the median step of both, and how many times as fast mixed precision is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import refluid.fluid as fluid
from refluid.fluid.contrib.mixed_precision import decorate
from refluid.measure.timing import Feed, TrainStep, alternate, ratio

layers = fluid.layers


@dataclass(frozen=True)
class Network:
    """A classifier of `shape` inputs: `logits` builds it."""

    title: str
    batch: int
    shape: tuple[int, ...]
    logits: Callable[[Any], Any]
    steps: int

    def feeds(self) -> list[Feed]:
        random = np.random.default_rng(7)
        return [
            {
                "x": random.standard_normal((self.batch, *self.shape), np.float32),
                "label": random.integers(0, 10, (self.batch, 1)),
            }
            for _ in range(4)
        ]


def wide_mlp(x: Any) -> Any:
    for _ in range(3):
        x = layers.fc(x, 2048, act="relu")
    return layers.fc(x, 10)


def conv_net(x: Any) -> Any:
    for filters in (64, 128, 256):
        x = layers.conv2d(x, filters, 3, padding=1, bias_attr=False)
        x = layers.pool2d(layers.batch_norm(x, act="relu"), 2, "max", 2)
    return layers.fc(x, 10)


def transformer(x: Any, width: int = 256, heads: int = 4, depth: int = 2) -> Any:
    for _ in range(depth):
        queries, keys, values = (_parted(_rows(x, width), heads) for _ in range(3))
        scale = (width // heads) ** -0.5
        weights = layers.softmax(layers.matmul(queries, keys, transpose_y=True, alpha=scale))
        mixed = layers.transpose(layers.matmul(weights, values), [0, 2, 1, 3])
        x = layers.layer_norm(
            x + _rows(layers.reshape(mixed, [0, 0, width]), width), begin_norm_axis=2
        )
        inner = _rows(x, 4 * width, act="relu")
        x = layers.layer_norm(x + _rows(inner, width), begin_norm_axis=2)
    return layers.fc(layers.reduce_mean(x, 1), 10)


def _rows(x: Any, size: int, act: str | None = None) -> Any:
    return layers.fc(x, size, num_flatten_dims=2, act=act)


def _parted(x: Any, heads: int) -> Any:
    return layers.transpose(layers.reshape(x, [0, 0, heads, -1]), [0, 2, 1, 3])


NETWORKS = (
    Network("MLP 1024-2048-2048-2048-10, batch 128", 128, (1024,), wide_mlp, 6),
    Network("Conv net 64-128-256, batch norm, 32 x 32, batch 32", 32, (3, 32, 32), conv_net, 4),
    Network("Transformer, 2 layers of 256, 64 positions, batch 16", 16, (64, 256), transformer, 4),
)


def rival(network: Network, *, mixed: bool) -> TrainStep:
    """A training step with Adam that returns its loss."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, *network.shape])
        label = fluid.data("label", [None, 1], "int64")
        costs = layers.softmax_with_cross_entropy(network.logits(x), label)
        loss = layers.mean(costs)
        optimizer: Any = fluid.optimizer.Adam(1e-4)
        (decorate(optimizer) if mixed else optimizer).minimize(loss)
    executor, scope = fluid.Executor(), fluid.Scope()
    executor.run(startup, scope=scope)

    def step(feed: Feed) -> float:
        (found,) = executor.run(main, feed=feed, fetch_list=[loss], scope=scope)
        return float(found.item())

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("| network | float32 ms | mixed ms | times as fast | range | first losses |")
    print("|---|---|---|---|---|---|")
    for network in NETWORKS:
        rivals = {"full": rival(network, mixed=False), "mixed": rival(network, mixed=True)}
        feeds = network.feeds()
        losses = [rivals[name](feeds[0]) for name in ("full", "mixed")]
        times = alternate(rivals, feeds, blocks=options.blocks, steps=network.steps, warmup=2)
        found = ratio(times["mixed"], times["full"])
        print(
            f"| {network.title} | {times['full'].median * 1e3:.1f} | "
            f"{times['mixed'].median * 1e3:.1f} | {found.value:.2f} | "
            f"{found.low:.2f} to {found.high:.2f} | {losses[0]:.4f}, {losses[1]:.4f} |"
        )


if __name__ == "__main__":
    main()
