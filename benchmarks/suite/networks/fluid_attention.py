"""Transformers as Fluid programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.suite.networks.fluid_layers import class_loss, linear, norm, table


def attention(
    fluid: Any, name: str, queries: Any, memory: Any, bias: Any, width: int, heads: int
) -> Any:
    """Multi-head attention of `queries` to `memory`, both [batch, length, width]."""
    layers = fluid.layers

    def parted(x: Any, part: str) -> Any:
        rows = linear(fluid, x, f"{name}.{part}", width, dims=2)
        return layers.transpose(layers.reshape(rows, [0, 0, heads, width // heads]), [0, 2, 1, 3])

    asked, keys, values = parted(queries, "query"), parted(memory, "key"), parted(memory, "value")
    scores = layers.matmul(asked, keys, transpose_y=True, alpha=(width // heads) ** -0.5)
    weights = layers.softmax(layers.elementwise_add(scores, bias))
    mixed = layers.transpose(layers.matmul(weights, values), [0, 2, 1, 3])
    return linear(fluid, layers.reshape(mixed, [0, 0, width]), f"{name}.out", width, dims=2)


def inner(fluid: Any, x: Any, name: str, width: int, act: str) -> Any:
    """The two layers after attention, and the sum with what went in, normed."""
    hidden = linear(fluid, x, f"{name}.wide", 4 * width, act, dims=2)
    return norm(fluid, x + linear(fluid, hidden, f"{name}.narrow", width, dims=2), f"{name}.norm2")


def encoder(fluid: Any, x: Any, name: str, bias: Any, width: int, heads: int, act: str) -> Any:
    seen = attention(fluid, f"{name}.self", x, x, bias, width, heads)
    return inner(fluid, norm(fluid, x + seen, f"{name}.norm1"), name, width, act)


def transformer(
    fluid: Any, feed: Mapping[str, Any], width: int = 256, heads: int = 4, depth: int = 3
) -> Any:
    words = 8000
    memory = norm(fluid, table(fluid, feed["source"], "source", words, width), "source_norm")
    for i in range(depth):
        memory = encoder(fluid, memory, f"encoders.{i}", feed["source_bias"], width, heads, "relu")
    x = norm(fluid, table(fluid, feed["target"], "target", words, width), "target_norm")
    for i in range(depth):
        name = f"decoders.{i}"
        seen = attention(fluid, f"{name}.self", x, x, feed["causal_bias"], width, heads)
        x = norm(fluid, x + seen, f"{name}.norm1")
        seen = attention(fluid, f"{name}.cross", x, memory, feed["source_bias"], width, heads)
        x = norm(fluid, x + seen, f"{name}.norm3")
        x = inner(fluid, x, name, width, "relu")
    return class_loss(fluid, linear(fluid, x, "out", words, dims=2), feed["next"])


def bert(
    fluid: Any, feed: Mapping[str, Any], width: int = 768, heads: int = 12, depth: int = 12
) -> Any:
    layers = fluid.layers
    x = table(fluid, feed["words"], "words", 30522, width)
    x = x + table(fluid, feed["positions"], "positions", 64, width)
    x = norm(fluid, x + table(fluid, feed["types"], "types", 2, width), "norm")
    for i in range(depth):
        x = encoder(fluid, x, f"encoders.{i}", feed["bias"], width, heads, "gelu")
    first = layers.reshape(layers.slice(x, axes=[1], starts=[0], ends=[1]), [-1, width])
    pooled = linear(fluid, first, "pool", width, "tanh")
    follows = class_loss(fluid, linear(fluid, pooled, "follows", 2), feed["follows"])
    hidden = layers.gather(layers.reshape(x, [-1, width]), feed["masked"])
    hidden = linear(fluid, hidden, "masked", width, "gelu")
    words = fluid.default_main_program().global_block().var("words.weight")
    logits = layers.matmul(hidden, words, transpose_y=True)
    return class_loss(fluid, logits, feed["word"]) + follows
