"""Small classifiers of 14 x 14 images, and how one is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import refluid.fluid as fluid

layers = fluid.layers
SIZE, CLASSES = 14, 10


def mlp(image: Any) -> Any:
    return layers.fc(layers.fc(image, 32, act="relu"), CLASSES)


def conv_net(image: Any) -> Any:
    hidden = layers.conv2d(image, 8, 3, act="relu")
    hidden = layers.batch_norm(layers.conv2d(hidden, 16, 3, bias_attr=False), act="relu")
    return layers.fc(layers.pool2d(hidden, 2, "max", 2), CLASSES)


def transformer(image: Any) -> Any:
    width = 32
    x = _rows(layers.reshape(image, [-1, SIZE, SIZE]), width)
    queries, keys, values = (_parted(_rows(x, width)) for _ in range(3))
    weights = layers.softmax(layers.matmul(queries, keys, transpose_y=True, alpha=0.25))
    mixed = layers.transpose(layers.matmul(weights, values), [0, 2, 1, 3])
    mixed = _rows(layers.reshape(mixed, [0, 0, width]), width)
    x = layers.layer_norm(x + mixed, begin_norm_axis=2)
    x = layers.layer_norm(x + _rows(_rows(x, 64, "relu"), width), begin_norm_axis=2)
    return layers.fc(layers.reduce_mean(x, 1), CLASSES)


def _rows(x: Any, size: int, act: str | None = None) -> Any:
    return layers.fc(x, size, num_flatten_dims=2, act=act)


def _parted(x: Any) -> Any:
    return layers.transpose(layers.reshape(x, [0, 0, 2, -1]), [0, 2, 1, 3])


def batches(count: int, size: int = 32) -> list[dict[str, Any]]:
    """Images around one centre per class."""
    random = np.random.RandomState(1)
    centres = random.randn(CLASSES, 1, SIZE, SIZE).astype("float32")
    labels = random.randint(0, CLASSES, (count, size, 1))
    noise = random.randn(count, size, 1, SIZE, SIZE).astype("float32")
    images = noise + centres[labels[..., 0]]
    return [{"image": x, "label": y} for x, y in zip(images, labels, strict=True)]


@dataclass
class Training:
    """A network with its loss and optimizer, in a scope of its own."""

    main: fluid.Program
    loss: Any
    optimizer: Any
    scope: fluid.Scope
    executor: fluid.Executor

    def run(self, feeds: list[dict[str, Any]], program: Any = None) -> list[float]:
        """The losses of one step per feed."""
        with fluid.scope_guard(self.scope):
            found = [
                self.executor.run(program or self.main, feed=feed, fetch_list=[self.loss])[0]
                for feed in feeds
            ]
        return [float(np.mean(one)) for one in found]

    def value(self, var: Any) -> Any:
        name = var if isinstance(var, str) else var.name
        return np.array(self.scope.find_var(name).get_tensor())

    def parameters(self) -> dict[str, Any]:
        return {one.name: self.value(one) for one in self.main.all_parameters()}

    def replicated(self, replicas: int, *, reduce: bool = False) -> fluid.CompiledProgram:
        build = fluid.BuildStrategy()
        build.reduce_strategy = fluid.BuildStrategy.ReduceStrategy(int(reduce))
        return fluid.CompiledProgram(self.main).with_data_parallel(
            self.loss.name, build, places=[fluid.CPUPlace()] * replicas
        )


def training(network: Callable[[Any], Any], make: Callable[[], Any], place: Any = None) -> Training:
    """Built and initialised; `make` gives the optimizer."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 9
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        image = fluid.data("image", [None, 1, SIZE, SIZE])
        label = fluid.data("label", [None, 1], "int64")
        loss = layers.mean(layers.softmax_with_cross_entropy(network(image), label))
        optimizer = make()
        optimizer.minimize(loss)
    scope, executor = fluid.Scope(), fluid.Executor(place)
    executor.run(startup, scope=scope)
    return Training(main, loss, optimizer, scope, executor)
