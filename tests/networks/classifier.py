"""What the Book's image classifiers share: labels, loss, accuracy and Adam."""

from __future__ import annotations

from collections.abc import Callable

from refluid import fluid

Network = Callable[[fluid.Variable], fluid.Variable]


def train(network: Network, image: str, shape: list[int]) -> fluid.Variable:
    """Trains `network`, from images to class probabilities; returns the loss."""
    pictures = fluid.data(name=image, shape=[None, *shape], dtype="float32")
    probabilities = network(pictures)
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=probabilities, label=label))
    fluid.layers.accuracy(input=probabilities, label=label)
    fluid.optimizer.Adam(learning_rate=0.001).minimize(loss)
    return loss
