"""Small networks of layers, each a function of its inputs; parameters start as said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refluid import fluid
from refluid.fluid import layers

Array = np.ndarray[Any, Any]


def drawn(*shape: int, seed: int = 1) -> Array:
    return np.random.RandomState(seed).standard_normal(shape).astype("float32")


def start(*shape: int, seed: int = 5) -> fluid.ParamAttr:
    return fluid.ParamAttr(
        initializer=fluid.initializer.NumpyArrayInitializer(drawn(*shape, seed=seed))
    )


def _fc(x: Any, y: Any) -> Any:
    return layers.fc(
        [x, y], 3, param_attr=[start(6, 3), start(6, 3, seed=6)], bias_attr=start(3), act="relu"
    )


def _conv(x: Any) -> Any:
    made = layers.conv2d(x, 4, 3, padding=1, param_attr=start(4, 2, 3, 3), bias_attr=start(4))
    made = layers.batch_norm(made, act="relu", param_attr=start(4), bias_attr=start(4))
    return layers.pool2d(made, 2, "avg", 2)


def _gates(x: Any, y: Any) -> Any:
    weights, bias = start(12, 24), start(24)
    hidden, cell = layers.lstm_unit(x, y, layers.tanh(y), 0.5, param_attr=weights, bias_attr=bias)
    updated, _, _ = layers.gru_unit(
        layers.concat([hidden, cell, x], 1), y, 18, param_attr=start(6, 18), bias_attr=start(1, 18)
    )
    return [hidden, cell, updated]


def _topk(x: Any, y: Any) -> Any:
    return [*layers.topk(x, k=2), layers.argmax(y, axis=1), *layers.argsort(x, descending=True)]


def _arithmetic(x: Any, y: Any) -> Any:
    return [(2.0 - x) * y + 1, -x / y, x < y, x[0:2, 1], y[::-1], 3 - x.astype("float64")]


def _parts(x: Any, y: Any) -> Any:
    pieces = [
        *layers.split(x, [1, 2, 3], dim=1),
        *layers.split(y, 2, dim=1),
        *layers.unstack(layers.stack([x, y])),
    ]
    return [
        *pieces,
        layers.reshape(layers.transpose(x, [1, 0]), [3, -1]),
        layers.squeeze(layers.unsqueeze(y, [1]), []),
    ]


def _losses(x: Any, label: Any) -> Any:
    loss, soft = layers.softmax_with_cross_entropy(x, label, return_softmax=True)
    wrong = layers.cross_entropy(soft, label)
    smooth = layers.huber_loss(x, layers.cast(layers.one_hot(label, 6), "float32"), 1.0)
    return [loss, soft, wrong, smooth, layers.accuracy(soft, label, k=2), layers.l2_normalize(x, 1)]


def _rows(x: Any, label: Any) -> Any:
    found = layers.embedding(label, [6, 6], param_attr=start(6, 6))
    made = layers.layer_norm(found + x, param_attr=start(6), bias_attr=start(6))
    return [made, layers.dropout(made, 0.4, is_test=True), layers.matmul(made, x, transpose_y=True)]


def _constants(x: Any) -> Any:
    ones = layers.fill_constant([1], "float32", 1.5)
    return [
        ones,
        layers.ones_like(x),
        layers.range(0, 6, 2, "int32"),
        layers.assign(drawn(2, 2)),
        layers.increment(ones, 2.0),
    ]


_X, _Y = {"x": drawn(4, 6)}, {"y": drawn(4, 6, seed=2)}
_LABEL = {"label": np.array([[0], [5], [2], [2]])}
NETWORKS: dict[str, tuple[Callable[..., Any], dict[str, Array]]] = {
    "fc": (_fc, _X | _Y),
    "conv2d": (_conv, {"x": drawn(2, 2, 6, 6)}),
    "lstm_unit": (_gates, _X | _Y),
    "topk": (_topk, _X | _Y),
    "arithmetic": (_arithmetic, _X | _Y),
    "split": (_parts, _X | _Y),
    "losses": (_losses, _X | _LABEL),
    "embedding": (_rows, _X | _LABEL),
    "constants": (_constants, _X),
}
