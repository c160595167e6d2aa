"""Small networks that tests of compression train, and their data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import refluid.fluid as fluid
from refluid.fluid.contrib.slim import Compressor

layers = fluid.layers
CLASSES = 4


class Net(NamedTuple):
    """Programs of a network, in a scope that has its first parameters."""

    main: fluid.Program
    test: fluid.Program
    scope: fluid.Scope
    loss: str
    accuracy: str
    guess: str
    optimizer: Any


def convolution(x: Any, name: str, filters: int, size: int, **options: Any) -> Any:
    """A convolution with batch norm, whose variables begin with `name`."""
    act = options.pop("act", "relu")
    weights = fluid.ParamAttr(f"{name}_weights")
    made = layers.conv2d(
        x, filters, size, padding=size // 2, param_attr=weights, bias_attr=False, **options
    )
    return layers.batch_norm(
        made,
        act=act,
        param_attr=fluid.ParamAttr(f"{name}_scale"),
        bias_attr=fluid.ParamAttr(f"{name}_offset"),
        moving_mean_name=f"{name}_mean",
        moving_variance_name=f"{name}_variance",
    )


def student(image: Any) -> Any:
    """A shortcut, a depthwise convolution, branches that are joined, a fully connected layer."""
    x = convolution(image, "conv1", 8, 3)
    y = convolution(convolution(x, "conv2", 12, 3), "conv3", 8, 3, act=None)
    x = layers.relu(x + y)
    x = convolution(convolution(x, "conv4", 8, 3, groups=8), "conv5", 16, 1, stride=2)
    x = layers.concat([convolution(x, "conv6", 8, 1), convolution(x, "conv7", 8, 3)], axis=1)
    scales = layers.fc(layers.pool2d(x, global_pooling=True), 16, act="sigmoid", name="squeeze")
    x = layers.elementwise_mul(x, scales, axis=0)
    x = layers.pool2d(x, 2, "avg", 2)
    return layers.fc(layers.reshape(x, [-1, 64]), CLASSES, act="softmax", name="fc")


def build(network: Any = student) -> Net:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    main.random_seed = startup.random_seed = 7
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        image = layers.data("image", [1, 8, 8])
        label = layers.data("label", [1], dtype="int64")
        guess = network(image)
        loss = layers.mean(layers.cross_entropy(guess, label))
        accuracy = layers.accuracy(guess, label)
        test = main.clone(for_test=True)
        rate = layers.piecewise_decay([200], [0.05, 0.01])
        optimizer = fluid.optimizer.Momentum(rate, 0.9)
    fluid.Executor(fluid.CPUPlace()).run(startup, scope=scope)
    return Net(main, test, scope, loss.name, accuracy.name, guess.name, optimizer)


def batches(count: int = 10, seed: int = 1) -> Any:
    """A reader: pictures whose brightness tells their class."""

    def reader() -> Iterator[Any]:
        draws = np.random.default_rng(seed)
        for _ in range(count):
            labels = draws.integers(0, CLASSES, 16)
            pictures = (
                draws.random((16, 1, 8, 8), np.float32) * 0.3 + 0.2 * labels[:, None, None, None]
            )
            yield [(one.astype("float32"), int(k)) for one, k in zip(pictures, labels, strict=True)]

    return reader


def compressor(net: Net, folder: Path, config: str, **options: Any) -> Compressor:
    """One that was configured by a YAML text; it trains on `batches`."""
    file = folder / "compress.yaml"
    file.write_text(config)
    feeds = [("image", "image"), ("label", "label")]
    settings = {"train_optimizer": net.optimizer, "log_period": 5} | options
    made = Compressor(
        fluid.CPUPlace(),
        net.scope,
        net.main,
        train_reader=batches(),
        train_feed_list=feeds,
        train_fetch_list=[("loss", net.loss)],
        eval_program=net.test,
        eval_reader=batches(4, 2),
        eval_feed_list=feeds,
        eval_fetch_list=[("acc", net.accuracy)],
        **settings,
    )
    made.config(str(file))
    return made


def guesses(program: fluid.Program, net: Net) -> Any:
    """What the network says of a batch in its test."""
    (batch,) = batches(1, 5)()
    feed = {
        "image": np.stack([one for one, _ in batch]),
        "label": np.array([[k] for _, k in batch], "int64"),
    }
    exe = fluid.Executor(fluid.CPUPlace())
    return exe.run(program, feed, [net.guess], scope=net.scope)[0]
