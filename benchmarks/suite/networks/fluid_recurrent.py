"""Recurrent networks as Fluid programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.suite.networks.fluid_layers import class_loss, linear, named, table


def lstm(
    fluid: Any, feed: Mapping[str, Any], words: int = 10000, width: int = 650, depth: int = 2
) -> Any:
    hidden = table(fluid, feed["words"], "words", words, width)
    for i in range(depth):
        cell = fluid.layers.LSTMCell(width, **named(fluid, f"lstm{i}"))
        hidden, _ = fluid.layers.rnn(cell, hidden)
    return class_loss(fluid, linear(fluid, hidden, "out", words, dims=2), feed["next"])


def _projected(fluid: Any, x: Any, name: str, size: int) -> Any:
    """The part of a recurrent layer that needs no earlier step."""
    attr = fluid.ParamAttr(name=f"{name}.input.weight")
    return fluid.layers.fc(x, size, param_attr=attr, bias_attr=False)


def _looked_up(fluid: Any, ids: Any, words: int, width: int) -> Any:
    return fluid.layers.embedding(
        ids, [words, width], param_attr=fluid.ParamAttr(name="words.weight")
    )


def lstm_lod(fluid: Any, feed: Mapping[str, Any], words: int = 10000, width: int = 256) -> Any:
    hidden = _looked_up(fluid, feed["words"], words, width)
    hidden, _ = fluid.layers.dynamic_lstm(
        _projected(fluid, hidden, "lstm", 4 * width),
        4 * width,
        use_peepholes=False,
        **named(fluid, "lstm"),
    )
    return class_loss(fluid, linear(fluid, hidden, "out", words), feed["next"])


def tagger(
    fluid: Any, feed: Mapping[str, Any], words: int = 20000, width: int = 128, tags: int = 57
) -> Any:
    embedded = _looked_up(fluid, feed["words"], words, width)
    both = [
        fluid.layers.dynamic_gru(
            _projected(fluid, embedded, name, 3 * width),
            width,
            is_reverse=name == "back",
            **named(fluid, name),
        )
        for name in ("ahead", "back")
    ]
    scores = linear(fluid, fluid.layers.concat(both, axis=1), "scores", tags)
    attr = fluid.ParamAttr(name="crf.weight")
    return fluid.layers.mean(fluid.layers.linear_chain_crf(scores, feed["tags"], param_attr=attr))


def seq2seq(fluid: Any, feed: Mapping[str, Any], words: int = 10000, width: int = 256) -> Any:
    layers = fluid.layers
    embedded = table(fluid, feed["source"], "source", words, width)
    memory, state = layers.rnn(
        layers.LSTMCell(width, name="encoder", **named(fluid, "encoder")), embedded
    )
    bias = layers.reshape(feed["source_bias"], [0, 1, feed["source_bias"].shape[3]])

    class Attending(layers.RNNCell):  # type: ignore[name-defined,misc]
        """An LSTM step, then attention to the source; fed with what was attended to before."""

        def __init__(self) -> None:
            self.lstm = layers.LSTMCell(width, name="decoder", **named(fluid, "decoder"))

        def call(self, inputs: Any, states: Any) -> Any:
            hidden, cell, attended = states
            out, (hidden, cell) = self.lstm(layers.concat([inputs, attended], 1), [hidden, cell])
            scores = layers.matmul(layers.unsqueeze(out, [1]), memory, transpose_y=True)
            weights = layers.softmax(layers.elementwise_add(scores, bias))
            context = layers.squeeze(layers.matmul(weights, memory), [1])
            attended = linear(fluid, layers.concat([context, out], 1), "attend", width, "tanh")
            return attended, [hidden, cell, attended]

    target = table(fluid, feed["target"], "target", words, width)
    empty = layers.fill_constant_batch_size_like(target, [-1, width], "float32", 0.0)
    hidden, _ = layers.rnn(Attending(), target, initial_states=[*state, empty])
    return class_loss(fluid, linear(fluid, hidden, "out", words, dims=2), feed["next"])
