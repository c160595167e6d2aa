"""Networks that are converted: built, given random values, and saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import refluid.fluid as fluid
from refluid.convert.source import Source, from_training

Network = tuple[list[str], list[Any], Any]
Build = Callable[[], Network]
layers = fluid.layers


def images() -> tuple[list[str], list[Any], Any]:
    """Convolutions, normalisations, a shortcut and pooling."""
    image = fluid.data("image", [None, 3, 8, 8])
    x = layers.batch_norm(layers.conv2d(image, 8, 3, padding=1, bias_attr=False), act="relu")
    y = layers.conv2d(x, 8, 3, padding=1, groups=2, act="relu")
    x = layers.pool2d(layers.elementwise_add(x, y), 2, "avg", 2)
    x = layers.conv2d_transpose(x, 4, filter_size=2, stride=2)
    x = layers.pool2d(x, pool_type="avg", global_pooling=True)
    return ["image"], [layers.fc(x, 5, act="softmax")], None


def attention() -> tuple[list[str], list[Any], Any]:
    """Embeddings, a shared table, layer norm and attention."""
    ids = fluid.data("ids", [None, 6], "int64")
    table = fluid.ParamAttr(name="table")
    x = fluid.embedding(ids, [20, 8], param_attr=table, padding_idx=0)
    heads = layers.transpose(layers.reshape(x, [0, 0, 2, 4]), [0, 2, 1, 3])
    weights = layers.softmax(layers.matmul(heads, heads, transpose_y=True, alpha=0.5))
    x = layers.reshape(layers.transpose(layers.matmul(weights, heads), [0, 2, 1, 3]), [0, 0, 8])
    x = layers.layer_norm(layers.fc(x, 8, num_flatten_dims=2, act="gelu"), begin_norm_axis=2)
    shared = fluid.default_main_program().global_block().var("table")
    return ["ids"], [layers.matmul(x, shared, transpose_y=True)], None


def regression() -> tuple[list[str], list[Any], Any]:
    """A perceptron with a loss."""
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    hidden = layers.dropout(layers.fc(x, 6, act="tanh"), 0.0)
    loss = layers.mean(layers.square_error_cost(layers.fc(hidden, 1), y))
    return ["x", "y"], [loss], loss


def classification() -> tuple[list[str], list[Any], Any]:
    """Batch normalisation and a softmax, with a loss."""
    x, label = fluid.data("x", [None, 3, 4, 4]), fluid.data("label", [None, 1], "int64")
    hidden = layers.batch_norm(layers.conv2d(x, 4, 3), act="relu")
    logits = layers.fc(hidden, 3)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    return ["x", "label"], [loss], loss


class Built:
    """A network in a scope of its own."""

    def __init__(self, build: Build, optimizer: Any = None) -> None:
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.startup.random_seed, self.scope = 1, fluid.Scope()
        self.executor = fluid.Executor()
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.feeds, self.targets, loss = build()
            if optimizer is not None:
                optimizer().minimize(loss)
        with fluid.scope_guard(self.scope):
            self.executor.run(self.startup)
            self._randomise()

    def _randomise(self) -> None:
        draw = np.random.RandomState(0)
        for parameter in self.main.all_parameters():
            value = self.scope.find_var(parameter.name).get_tensor()
            noise = draw.uniform(-0.1, 0.1, parameter.shape)
            value.set((np.array(value) + noise).astype("float32"), fluid.CPUPlace())

    def save(self, folder: Path) -> Path:
        """As an inference model."""
        with fluid.scope_guard(self.scope):
            arguments = str(folder), self.feeds, self.targets, self.executor, self.main
            fluid.io.save_inference_model(*arguments)
        return folder

    def values(self) -> dict[str, torch.Tensor]:
        """All variables that outlive a run, as copies."""
        names = [var.name for var in self.main.list_vars() if var.persistable]
        return {name: self.scope.find_var(name).value.clone() for name in names}

    def source(self) -> Source:
        """The network of the training program."""
        return from_training("net", self.main, self.values(), [one.name for one in self.targets])
