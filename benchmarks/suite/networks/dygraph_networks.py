"""Networks of `fluid.dygraph`: name to a class whose `forward` takes the fed variables.

Parameters have the names that they have in the Fluid programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.suite.networks.fluid_vision import RESNET50_STAGES
from refluid import fluid
from refluid.fluid import dygraph, layers

Feed = Mapping[str, Any]


def _named(name: str) -> dict[str, Any]:
    return {
        "param_attr": fluid.ParamAttr(name=f"{name}.weight"),
        "bias_attr": fluid.ParamAttr(name=f"{name}.bias"),
    }


def _linear(name: str, inputs: int, outputs: int, act: str | None = None) -> Any:
    return dygraph.Linear(inputs, outputs, act=act, **_named(name))


def _table(name: str, rows: int, width: int) -> Any:
    return dygraph.Embedding([rows, width], param_attr=fluid.ParamAttr(name=f"{name}.weight"))


def _loss(logits: Any, label: Any) -> Any:
    return layers.mean(layers.softmax_with_cross_entropy(logits, label))


class Mlp(dygraph.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = _linear("fc1", 784, 128, "relu")
        self.fc2 = _linear("fc2", 128, 64, "relu")
        self.fc3 = _linear("fc3", 64, 10)

    def forward(self, feed: Feed) -> Any:
        return _loss(self.fc3(self.fc2(self.fc1(feed["image"]))), feed["label"])


class ConvNorm(dygraph.Layer):
    def __init__(
        self, name: str, inputs: int, filters: int, size: int, stride: int = 1, act: Any = None
    ) -> None:
        super().__init__()
        self.conv = dygraph.Conv2D(
            inputs,
            filters,
            size,
            stride,
            (size - 1) // 2,
            param_attr=fluid.ParamAttr(name=f"{name}.conv.weight"),
            bias_attr=False,
        )
        self.norm = dygraph.BatchNorm(
            filters,
            act,
            moving_mean_name=f"{name}.norm.running_mean",
            moving_variance_name=f"{name}.norm.running_var",
            **_named(f"{name}.norm"),
        )

    def forward(self, image: Any) -> Any:
        return self.norm(self.conv(image))


class Bottleneck(dygraph.Layer):
    def __init__(self, name: str, inputs: int, filters: int, stride: int) -> None:
        super().__init__()
        self.reduce = ConvNorm(f"{name}.reduce", inputs, filters, 1, act="relu")
        self.spatial = ConvNorm(f"{name}.spatial", filters, filters, 3, stride, "relu")
        self.expand = ConvNorm(f"{name}.expand", filters, 4 * filters, 1)
        self.short = None
        if stride != 1 or inputs != 4 * filters:
            self.short = ConvNorm(f"{name}.short", inputs, 4 * filters, 1, stride)

    def forward(self, image: Any) -> Any:
        hidden = self.expand(self.spatial(self.reduce(image)))
        image = image if self.short is None else self.short(image)
        return layers.elementwise_add(hidden, image, act="relu")


class ResNet50(dygraph.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm("stem", 3, 64, 7, 2, "relu")
        self.pool = dygraph.Pool2D(3, "max", 2, 1)
        self.blocks = dygraph.LayerList()
        inputs = 64
        for stage, (filters, count) in enumerate(RESNET50_STAGES):
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                name = f"blocks.{len(self.blocks)}"
                self.blocks.append(Bottleneck(name, inputs, filters, stride))
                inputs = 4 * filters
        self.mean = dygraph.Pool2D(pool_type="avg", global_pooling=True)
        self.fc = _linear("fc", inputs, 1000)

    def forward(self, feed: Feed) -> Any:
        hidden = self.pool(self.stem(feed["image"]))
        for block in self.blocks:
            hidden = block(hidden)
        return _loss(self.fc(layers.reshape(self.mean(hidden), [0, -1])), feed["label"])


class LstmCell(dygraph.Layer):
    """A step of Fluid's `LSTMCell`, as dygraph scripts write it."""

    def __init__(self, name: str, inputs: int, width: int) -> None:
        super().__init__()
        names, size = _named(name), 4 * width
        self.weight = self.create_parameter([inputs + width, size], names["param_attr"])
        self.bias = self.create_parameter([size], names["bias_attr"], is_bias=True)

    def forward(self, x: Any, hidden: Any, cell: Any) -> Any:
        gates = layers.matmul(layers.concat([x, hidden], 1), self.weight) + self.bias
        i, j, f, o = layers.split(gates, 4, dim=1)
        cell = cell * layers.sigmoid(f + 1.0) + layers.sigmoid(i) * layers.tanh(j)
        return layers.tanh(cell) * layers.sigmoid(o), cell


class Lstm(dygraph.Layer):
    def __init__(self, words: int = 10000, width: int = 650, depth: int = 2) -> None:
        super().__init__()
        self.width = width
        self.words = _table("words", words, width)
        self.cells = dygraph.LayerList([LstmCell(f"lstm{n}", width, width) for n in range(depth)])
        self.out = _linear("out", width, words)

    def forward(self, feed: Feed) -> Any:
        steps = layers.unstack(self.words(feed["words"]), axis=1)
        for cell in self.cells:
            hidden = state = layers.fill_constant([steps[0].shape[0], self.width], "float32", 0.0)
            for n, step in enumerate(steps):
                hidden, state = cell(step, hidden, state)
                steps[n] = hidden
        return _loss(self.out(layers.stack(steps, axis=1)), feed["next"])


class Attention(dygraph.Layer):
    def __init__(self, name: str, width: int, heads: int) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.query = _linear(f"{name}.query", width, width)
        self.key = _linear(f"{name}.key", width, width)
        self.value = _linear(f"{name}.value", width, width)
        self.out = _linear(f"{name}.out", width, width)

    def _parted(self, x: Any) -> Any:
        parts = layers.reshape(x, [0, 0, self.heads, self.width // self.heads])
        return layers.transpose(parts, [0, 2, 1, 3])

    def forward(self, queries: Any, memory: Any, bias: Any) -> Any:
        asked, keys = self._parted(self.query(queries)), self._parted(self.key(memory))
        values, factor = self._parted(self.value(memory)), (self.width // self.heads) ** -0.5
        scores = layers.matmul(asked, keys, transpose_y=True, alpha=factor)
        weights = layers.softmax(layers.elementwise_add(scores, bias))
        mixed = layers.transpose(layers.matmul(weights, values), [0, 2, 1, 3])
        return self.out(layers.reshape(mixed, [0, 0, self.width]))


class Block(dygraph.Layer):
    """Attention to itself, and to a memory where it is `crossed`; then two layers."""

    def __init__(self, name: str, width: int, heads: int, crossed: bool) -> None:
        super().__init__()
        self.self = Attention(f"{name}.self", width, heads)
        self.norm1 = dygraph.LayerNorm(width, **_named(f"{name}.norm1"))
        self.cross = Attention(f"{name}.cross", width, heads) if crossed else None
        self.norm3 = dygraph.LayerNorm(width, **_named(f"{name}.norm3")) if crossed else None
        self.wide = _linear(f"{name}.wide", width, 4 * width, "relu")
        self.narrow = _linear(f"{name}.narrow", 4 * width, width)
        self.norm2 = dygraph.LayerNorm(width, **_named(f"{name}.norm2"))

    def forward(self, x: Any, bias: Any, memory: Any = None, memory_bias: Any = None) -> Any:
        x = self.norm1(x + self.self(x, x, bias))
        if self.cross is not None:
            x = self.norm3(x + self.cross(x, memory, memory_bias))
        return self.norm2(x + self.narrow(self.wide(x)))


class Transformer(dygraph.Layer):
    def __init__(self, words: int = 8000, width: int = 256, heads: int = 4, depth: int = 3) -> None:
        super().__init__()
        self.source, self.target = (_table(name, words, width) for name in ("source", "target"))
        self.source_norm = dygraph.LayerNorm(width, **_named("source_norm"))
        self.target_norm = dygraph.LayerNorm(width, **_named("target_norm"))
        self.encoders, self.decoders = (
            dygraph.LayerList([Block(f"{name}.{n}", width, heads, crossed) for n in range(depth)])
            for name, crossed in (("encoders", False), ("decoders", True))
        )
        self.out = _linear("out", width, words)

    def forward(self, feed: Feed) -> Any:
        memory = self.source_norm(self.source(feed["source"]))
        for block in self.encoders:
            memory = block(memory, feed["source_bias"])
        x = self.target_norm(self.target(feed["target"]))
        for block in self.decoders:
            x = block(x, feed["causal_bias"], memory, feed["source_bias"])
        return _loss(self.out(x), feed["next"])


NETWORKS: Mapping[str, Any] = {
    "mlp": Mlp,
    "resnet50": ResNet50,
    "lstm": Lstm,
    "transformer": Transformer,
}
