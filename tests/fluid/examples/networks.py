"""Layers with parameters, their initializers, and Switch."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid import fluid
from tests.fluid.examples.feeds import Build, x

L = fluid.layers


def _switch() -> None:
    rate = L.create_global_var([1], 0.0, "float32", persistable=True, name="learning_rate")
    zero = L.fill_constant(shape=[1], dtype="float32", value=0.0)
    one = L.fill_constant(shape=[1], dtype="float32", value=1.0)
    two = L.fill_constant(shape=[1], dtype="float32", value=2.0)
    step = L.autoincreased_step_counter(counter_name="@LR_DECAY_COUNTER@", begin=0, step=1)
    with L.Switch() as switch:
        with switch.case(step == zero):
            L.assign(input=one, output=rate)
        with switch.default():
            L.assign(input=two, output=rate)


def _embedding() -> None:
    ids = x(-1, 1, dtype="int64")
    fluid.embedding(ids, size=(128, 64))
    table = np.random.RandomState(0).random_sample((128, 100)).astype("float32")
    attr = fluid.ParamAttr(
        name="emb_weight",
        learning_rate=0.5,
        trainable=True,
        initializer=fluid.initializer.NumpyArrayInitializer(table),
    )
    L.embedding(ids, size=(128, 100), param_attr=attr)


def _hidden(act: str | None = None, size: int = 200) -> fluid.Variable:
    return L.fc(input=x(3, 7, 3, 7), size=size, param_attr="fc1.w", act=act)


def _softmax_loss() -> None:
    data, label = x(-1, 128, name="data"), x(-1, 1, name="label", dtype="int64")
    L.softmax_with_cross_entropy(logits=L.fc(input=data, size=100), label=label)


def _cross_entropy() -> None:
    data, label = x(-1, 3, 10), x(-1, 1, name="label", dtype="int64")
    L.cross_entropy(input=L.fc(input=data, size=7, act="softmax"), label=label)


def _prelu() -> None:
    attr = fluid.ParamAttr(name="alpha")
    L.prelu(x(-1, 5, 10, 10), mode="channel", param_attr=attr)


def _logits() -> None:
    data = x(10, name="data")
    L.sigmoid_cross_entropy_with_logits(x=data, label=data, ignore_index=-1, normalize=True)


def _learned(initializer: Any, data: Build) -> None:
    L.fc(input=data(), size=10, param_attr=initializer)


EXAMPLES: dict[str, Build] = {
    "layers.Switch-1": _switch,
    "layers.autoincreased_step_counter-0": lambda: L.autoincreased_step_counter(
        counter_name="@LR_DECAY_COUNTER@", begin=0, step=1
    ),
    "layers.batch_norm-0": lambda: L.batch_norm(_hidden()),
    "layers.conv2d-0": lambda: L.conv2d(x(-1, 3, 32, 32, name="data"), 2, 3, act="relu"),
    "layers.conv2d_transpose-0": lambda: L.conv2d_transpose(
        x(-1, 3, 32, 32, name="data"), num_filters=2, filter_size=3
    ),
    "layers.create_parameter-0": lambda: L.create_parameter(shape=[784, 200], dtype="float32"),
    "layers.cross_entropy-0": _cross_entropy,
    "layers.data-0": lambda: L.data(name="x", shape=[784], dtype="float32"),
    "layers.dropout-0": lambda: L.dropout(x(-1, 32, 32, name="data"), dropout_prob=0.5),
    "layers.embedding-0": _embedding,
    "layers.layer_norm-0": lambda: L.layer_norm(x(-1, 32, 32)),
    "layers.prelu-0": _prelu,
    "layers.sigmoid_cross_entropy_with_logits-0": _logits,
    "layers.softmax_with_cross_entropy-0": _softmax_loss,
    "nets.glu-0": lambda: fluid.nets.glu(x(-1, 6, 3, 9, name="words"), dim=1),
    "one_hot-0": lambda: fluid.one_hot(x(4, name="label", dtype="int64"), depth=4),
    "initializer.MSRA-0": lambda: _learned(
        fluid.initializer.MSRA(uniform=False), lambda: x(8, 32, 32, name="data")
    ),
    "initializer.Uniform-0": lambda: _learned(
        fluid.initializer.Uniform(low=-0.5, high=0.5), lambda: x(-1, 1)
    ),
}
