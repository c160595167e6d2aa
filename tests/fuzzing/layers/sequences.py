"""Layers over rows with sequences (LoD)."""

from __future__ import annotations

from typing import Any

from refluid import fluid
from tests.fuzzing.table import Net, known, layer, need

L = fluid.layers


@layer((2,), ragged=True, weight=2)
def sequence_pool(net: Net, x: Any) -> Any:
    return L.sequence_pool(x, net.one("sum", "average", "sqrt", "max", "last", "first"))


@layer((2,), ragged=True, weight=2)
def sequence_rows(net: Net, x: Any) -> Any:
    return L.sequence_conv(x, net.one(2, 3), net.one(1, 2, 3), act=net.one(None, "relu"))


@layer((2,), ragged=True)
def sequence_softmax(net: Net, x: Any) -> Any:
    return L.sequence_softmax(L.fc(x, 1))


@layer((2,), ragged=True)
def sequence_reverse(net: Net, x: Any) -> Any:
    return L.sequence_reverse(x)


@layer((2,), ragged=True)
def sequence_spread(net: Net, x: Any) -> Any:
    """What is known of a whole sequence, at each of its rows."""
    return L.sequence_expand_as(L.sequence_pool(x, "max"), x)


@layer((2,), ragged=True)
def sequence_filled(net: Net, x: Any) -> Any:
    zero = L.fill_constant([1], "float32", 0.0)
    padded, lengths = L.sequence_pad(x, zero, maxlen=net.one(None, 12))
    return L.sequence_unpad(L.tanh(padded), lengths)


@layer((2,), ragged=True)
def sequence_twice(net: Net, x: Any) -> Any:
    return L.sequence_concat([x, L.tanh(x)])


@layer((2,), ragged=True, weight=2)
def dynamic_gru(net: Net, x: Any) -> Any:
    return L.dynamic_gru(L.fc(x, 12), 4, is_reverse=net.chance(0.3), origin_mode=net.chance(0.3))


@layer((2,), ragged=True, weight=2)
def dynamic_lstm(net: Net, x: Any) -> Any:
    peep = net.chance(0.5)
    return L.dynamic_lstm(L.fc(x, 16), 16, use_peepholes=peep, is_reverse=net.chance(0.3))[0]


@layer((2,), ragged=True, weight=1.5)
def dynamic_rnn(net: Net, x: Any) -> Any:
    need(known(x.shape[-1]))
    loop = L.DynamicRNN()
    with loop.block():
        word = loop.step_input(x)
        past = loop.memory(shape=[4], value=0.0)
        now = L.fc([word, past], 4, act="tanh")
        loop.update_memory(past, now)
        loop.output(now)
    return loop()


@layer((2,), ragged=True)
def row_conv(net: Net, x: Any) -> Any:
    return L.row_conv(x, 2)


@layer((2,), ragged=True, weight=2)
def row_product(net: Net, x: Any) -> Any:
    return L.fc(x, net.one(3, 4), act=net.one(None, "relu", "tanh"))
