"""The Book's first chapter: linear regression of house prices on 13 features."""

from __future__ import annotations

from refluid import fluid


def train() -> fluid.Variable:
    """Network, loss and optimizer in the default programs; returns the loss."""
    x = fluid.data(name="x", shape=[None, 13], dtype="float32")
    y = fluid.data(name="y", shape=[None, 1], dtype="float32")
    predicted = fluid.layers.fc(input=x, size=1, act=None)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(input=predicted, label=y))
    fluid.optimizer.SGD(learning_rate=0.001).minimize(loss)
    return loss
