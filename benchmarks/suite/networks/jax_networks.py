"""The networks in JAX: functions of (weights, rows, batch) that give the loss.

`rows` are those of the sparse tables that a batch uses, looked up before: TABLES says which
array of ids each table is read with. So gradients reach rows, not whole tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.suite.networks.fluid_vision import MOBILENET_BLOCKS, RESNET50_STAGES, VGG16_STAGES
from benchmarks.suite.networks.jax_layers import (
    W,
    batch_norm,
    channels,
    class_loss,
    convolved,
    linear,
    max_pool,
    yes_loss,
)
from benchmarks.suite.networks.jax_sequences import (
    bert,
    lstm,
    lstm_lod,
    seq2seq,
    tagger,
    transformer,
)

TABLES: Mapping[str, Mapping[str, str]] = {
    "ctr": {"slots.weight": "slots"},
    "deepfm": {"first.weight": "ids", "second.weight": "ids"},
    "ncf": {f"{k}_{part}.weight": k for k in ("user", "item") for part in ("factors", "mlp")},
    "word2vec": {"centers.weight": "center", "contexts.weight": "context"},
}


def mlp(w: W, rows: W, feed: W) -> Any:
    hidden = jax.nn.relu(linear(w, feed["image"], "fc1"))
    return class_loss(linear(w, jax.nn.relu(linear(w, hidden, "fc2")), "fc3"), feed["label"])


def conv(w: W, rows: W, feed: W) -> Any:
    hidden = feed["image"]
    for name in ("conv1", "conv2"):
        hidden = convolved(w, hidden, name) + channels(w[f"{name}.bias"])
        hidden = max_pool(jax.nn.relu(hidden), 2, 2)
    return class_loss(linear(w, hidden.reshape(len(hidden), -1), "fc"), feed["label"])


def _conv_norm(w: W, x: Any, name: str, size: int, stride: int = 1, groups: int = 1) -> Any:
    hidden = convolved(w, x, f"{name}.conv", stride, (size - 1) // 2, groups)
    return batch_norm(w, hidden, f"{name}.norm")


def _bottleneck(w: W, x: Any, name: str, stride: int) -> Any:
    hidden = jax.nn.relu(_conv_norm(w, x, f"{name}.reduce", 1))
    hidden = jax.nn.relu(_conv_norm(w, hidden, f"{name}.spatial", 3, stride))
    hidden = _conv_norm(w, hidden, f"{name}.expand", 1)
    if f"{name}.short.conv.weight" in w:
        x = _conv_norm(w, x, f"{name}.short", 1, stride)
    return jax.nn.relu(hidden + x)


def resnet50(w: W, rows: W, feed: W) -> Any:
    hidden = jax.nn.relu(_conv_norm(w, feed["image"], "stem", 7, 2))
    hidden = max_pool(hidden, 3, 2, 1)
    block = 0
    for stage, (_, count) in enumerate(RESNET50_STAGES):
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            hidden = _bottleneck(w, hidden, f"blocks.{block}", stride)
            block += 1
    return class_loss(linear(w, hidden.mean((2, 3)), "fc"), feed["label"])


def mobilenet(w: W, rows: W, feed: W) -> Any:
    hidden = jax.nn.relu(_conv_norm(w, feed["image"], "stem", 3, 2))
    for block, (_, stride) in enumerate(MOBILENET_BLOCKS):
        name = f"blocks.{block}"
        hidden = jax.nn.relu(_conv_norm(w, hidden, f"{name}.0", 3, stride, hidden.shape[1]))
        hidden = jax.nn.relu(_conv_norm(w, hidden, f"{name}.1", 1))
    return class_loss(linear(w, hidden.mean((2, 3)), "fc"), feed["label"])


def vgg16(w: W, rows: W, feed: W) -> Any:
    hidden = feed["image"]
    layer = 0
    for _, count in VGG16_STAGES:
        for _ in range(count):
            name = f"convs.{layer}"
            hidden = convolved(w, hidden, name, padding=1) + channels(w[f"{name}.bias"])
            hidden = jax.nn.relu(hidden)
            layer += 1
        hidden = max_pool(hidden, 2, 2)
    hidden = jax.nn.relu(linear(w, hidden.reshape(len(hidden), -1), "fc1"))
    return class_loss(linear(w, jax.nn.relu(linear(w, hidden, "fc2")), "fc3"), feed["label"])


def _deep(w: W, hidden: Any) -> Any:
    for i in range(3):
        hidden = jax.nn.relu(linear(w, hidden, f"fc{i}"))
    return hidden


def ctr(w: W, rows: W, feed: W) -> Any:
    slots = rows["slots.weight"]
    hidden = jnp.concatenate([slots.reshape(len(slots), -1), feed["dense"]], 1)
    return class_loss(linear(w, _deep(w, hidden), "out"), feed["click"])


def deepfm(w: W, rows: W, feed: W) -> Any:
    values = feed["values"][:, :, None]
    first, second = rows["first.weight"] * values, rows["second.weight"] * values
    crossed = jnp.square(second.sum(1)) - jnp.square(second).sum(1)
    logits = linear(w, _deep(w, second.reshape(len(second), -1)), "out") + first.sum(1)
    return yes_loss(logits + 0.5 * crossed.sum(1, keepdims=True), feed["click"])


def ncf(w: W, rows: W, feed: W) -> Any:
    product = rows["user_factors.weight"] * rows["item_factors.weight"]
    both = jnp.concatenate([rows["user_mlp.weight"], rows["item_mlp.weight"]], 2)
    hidden = jnp.concatenate([product[:, 0], _deep(w, both[:, 0])], 1)
    return yes_loss(linear(w, hidden, "out"), feed["liked"])


def word2vec(w: W, rows: W, feed: W) -> Any:
    logits = (rows["contexts.weight"] * rows["centers.weight"]).sum(2)
    return yes_loss(logits, feed["real"])


NETWORKS: Mapping[str, Callable[[W, W, W], Any]] = {
    function.__name__: function
    for function in (
        *(mlp, conv, resnet50, mobilenet, vgg16, lstm, lstm_lod, tagger),
        *(transformer, bert, seq2seq, ctr, deepfm, ncf, word2vec),
    )
}
