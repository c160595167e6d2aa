"""Small networks on which knobs are measured: for each knob one that it is meant for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.fusion_networks import residual
from refluid import fluid
from refluid.measure.timing import Feed

layers = fluid.layers
Wrap = Callable[[Any, list[Any]], Any]


@dataclass(frozen=True)
class Network:
    """`build` takes the image and gives what the loss is made of, and checkpoints."""

    title: str
    build: Callable[[Any], tuple[Any, list[Any]]]
    shape: tuple[int, ...]
    steps: int

    def feeds(self) -> list[Feed]:
        """Four random batches, the same every time."""
        random = np.random.default_rng(7)
        rows = self.shape[0]
        return [
            {
                "image": random.standard_normal(self.shape, np.float32),
                "label": random.integers(0, 10, (rows, 1)),
            }
            for _ in range(4)
        ]


def _perceptron(depth: int, width: int, every: int = 1) -> Callable[[Any], tuple[Any, list[Any]]]:
    def build(image: Any) -> tuple[Any, list[Any]]:
        hidden = []
        for _ in range(depth):
            image = layers.fc(image, width, act="relu")
            hidden.append(image)
        return image, hidden[every - 1 :: every]

    return build


def _convolutions(image: Any) -> tuple[Any, list[Any]]:
    return residual(image), []


def _branches(image: Any) -> tuple[Any, list[Any]]:
    towers = []
    for _ in range(4):
        tower = image
        for _ in range(3):
            tower = layers.fc(tower, 256, act="tanh")
        towers.append(tower)
    return layers.concat(towers, 1), []


def _sums(image: Any) -> tuple[Any, list[Any]]:
    for _ in range(12):
        image = layers.elementwise_add(layers.scale(image, 0.5), layers.relu(image))
    return image, []


def _filters(image: Any) -> tuple[Any, list[Any]]:
    for _ in range(2):
        image = layers.conv2d(image, 16, 3, padding=1, act="relu")
    return image, []


NETWORKS: Mapping[str, Network] = {
    "small": Network("3 layers of 64, batch 32", _perceptron(3, 64), (32, 64), 100),
    "wide": Network("6 layers of 1024, batch 16", _perceptron(6, 1024), (16, 1024), 6),
    "deep": Network("24 layers of 256, batch 512", _perceptron(24, 256, 5), (512, 256), 4),
    "branches": Network("4 towers of 3 layers of 256, batch 64", _branches, (64, 256), 20),
    "residual": Network(
        "4 residual blocks 16-64, 32x32 images, batch 16", _convolutions, (16, 3, 32, 32), 5
    ),
    "filters": Network("2 convolutions 3x3 of 16, 8x8 images, batch 4", _filters, (4, 3, 8, 8), 20),
    "sums": Network("24 sums and activations, 512 x 2048", _sums, (512, 2048), 5),
}


def trained(network: Network, wrap: Wrap | None) -> tuple[Any, Any, Any]:
    """Program, startup program and loss; trained with Adam, or what `wrap` makes of it."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        image = fluid.data("image", [None, *network.shape[1:]])
        label = fluid.data("label", [None, 1], "int64")
        hidden, checkpoints = network.build(image)
        loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(hidden, 10), label))
        adam: Any = fluid.optimizer.Adam(1e-4)
        (wrap(adam, checkpoints) if wrap else adam).minimize(loss)
    return main, startup, loss
