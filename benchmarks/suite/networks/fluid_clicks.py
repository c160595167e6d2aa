"""Networks over sparse tables as Fluid programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.suite.networks.fluid_layers import linear, table, yes_loss


def ctr(
    fluid: Any, feed: Mapping[str, Any], ids: int = 100_001, width: int = 10, slots: int = 26
) -> Any:
    layers = fluid.layers
    attr = fluid.ParamAttr(name="slots.weight")
    rows = [
        layers.embedding(feed[f"slot{i}"], [ids, width], is_sparse=True, param_attr=attr)
        for i in range(slots)
    ]
    hidden = layers.concat([*rows, feed["dense"]], axis=1)
    for i in range(3):
        hidden = linear(fluid, hidden, f"fc{i}", 400, "relu")
    probability = linear(fluid, hidden, "out", 2, "softmax")
    return layers.mean(layers.cross_entropy(probability, feed["click"]))


def deepfm(
    fluid: Any, feed: Mapping[str, Any], ids: int = 100_001, width: int = 10, count: int = 39
) -> Any:
    layers = fluid.layers
    values = layers.unsqueeze(feed["values"], [2])
    first = table(fluid, feed["ids"], "first", ids, 1, sparse=True) * values
    rows = table(fluid, feed["ids"], "second", ids, width, sparse=True) * values
    crossed = layers.square(layers.reduce_sum(rows, 1)) - layers.reduce_sum(layers.square(rows), 1)
    hidden = layers.reshape(rows, [-1, count * width])
    for i, size in enumerate((128, 64, 32)):
        hidden = linear(fluid, hidden, f"fc{i}", size, "relu")
    logits = linear(fluid, hidden, "out", 1) + layers.reduce_sum(first, 1)
    logits = logits + layers.scale(layers.reduce_sum(crossed, 1, keep_dim=True), scale=0.5)
    return yes_loss(fluid, logits, feed["click"])


def ncf(fluid: Any, feed: Mapping[str, Any]) -> Any:
    layers = fluid.layers

    def rows(kind: str, part: str, count: int, width: int) -> Any:
        found = table(fluid, feed[kind], f"{kind}_{part}", count, width, sparse=True)
        return layers.reshape(found, [-1, width])

    product = rows("user", "factors", 6040, 8) * rows("item", "factors", 3706, 8)
    hidden = layers.concat([rows("user", "mlp", 6040, 32), rows("item", "mlp", 3706, 32)], axis=1)
    for i, size in enumerate((32, 16, 8)):
        hidden = linear(fluid, hidden, f"fc{i}", size, "relu")
    logits = linear(fluid, layers.concat([product, hidden], axis=1), "out", 1)
    return yes_loss(fluid, logits, feed["liked"])


def word2vec(fluid: Any, feed: Mapping[str, Any], words: int = 50_000, width: int = 128) -> Any:
    layers = fluid.layers
    wide = fluid.initializer.Uniform(-0.5, 0.5)
    center = table(fluid, feed["center"], "centers", words, width, sparse=True, start=wide)
    context = table(fluid, feed["context"], "contexts", words, width, sparse=True, start=wide)
    logits = layers.reduce_sum(layers.elementwise_mul(context, center), 2)
    return yes_loss(fluid, logits, feed["real"])
