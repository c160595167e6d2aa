"""Layers with weights for rows, losses of rows, and recurrent layers over a dense batch."""

from __future__ import annotations

from typing import Any

from refluid import fluid
from tests.fuzzing.table import Net, known, layer, need

L = fluid.layers


def _regularized(net: Net) -> Any:
    if net.chance(0.8):
        return None
    kind = net.one(fluid.regularizer.L1Decay, fluid.regularizer.L2Decay)
    return fluid.ParamAttr(regularizer=kind(0.01), learning_rate=net.one(1.0, 0.5))


@layer((2, 3, 4), weight=4)
def fc(net: Net, x: Any) -> Any:
    flat = len(x.shape) - 1 if net.chance(0.7) else 1
    need(all(known(size) for size in x.shape[flat:]))
    act = net.one(None, "relu", "tanh", "softmax")
    bias = net.one(None, False)
    return L.fc(x, net.one(1, 3, 4, 8), flat, _regularized(net), bias_attr=bias, act=act)


@layer((2,), weight=0.7)
def bilinear(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    return L.bilinear_tensor_product(x, net.like(x), 3)


@layer((2,))
def similarity(net: Net, x: Any) -> Any:
    return L.cos_sim(x, L.scale(net.like(x), 0.5, 1.0))


@layer((2,), weight=1.5)
def class_loss(net: Net, x: Any) -> Any:
    """Against the place of the smallest element."""
    need(known(x.shape[1]) and x.shape[1] > 1)
    label = L.unsqueeze(L.argmin(x, axis=1), [1])
    if net.chance(0.5):
        return L.softmax_with_cross_entropy(x, label, ignore_index=net.one(-100, 0))
    return L.cross_entropy(L.softmax(x), label)


@layer((2, 3), weight=1.5)
def pair_loss(net: Net, x: Any) -> Any:
    other = L.scale(net.like(x), 0.5, 0.1)
    kind = net.one("huber", "square", "smooth", "log", "sigmoid", "kl", "mse", "rank")
    if kind == "huber":
        return L.huber_loss(x, other, 0.5)
    if kind == "smooth":
        need(len(x.shape) == 2)
        return L.smooth_l1(x, other)
    if kind == "log":
        return L.log_loss(L.sigmoid(x), L.sigmoid(other))
    if kind == "sigmoid":
        return L.sigmoid_cross_entropy_with_logits(x, L.sigmoid(other), normalize=net.chance(0.3))
    if kind == "kl":
        how = net.one("none", "batchmean", "mean")
        return L.kldiv_loss(L.log_softmax(x), L.softmax(other), how)
    if kind == "rank":
        return L.margin_rank_loss(L.sigmoid(x), x, other)
    return getattr(L, "mse_loss" if kind == "mse" else "square_error_cost")(x, other)


@layer((2,), weight=0.7)
def rank_pairs(net: Net, x: Any) -> Any:
    need(known(x.shape[1]) and x.shape[1] > 1)
    label = L.unsqueeze(L.argmax(x, axis=1), [1])
    return L.bpr_loss(L.softmax(x), label)


@layer((3,), weight=2)
def attention(net: Net, x: Any) -> Any:
    need(known(x.shape[-1]))
    query, key = (L.fc(x, 4, num_flatten_dims=2, bias_attr=False) for _ in range(2))
    scores = L.softmax(L.matmul(query, key, transpose_y=True, alpha=0.5))
    return L.matmul(scores, x)


@layer((3,), weight=2)
def lstm(net: Net, x: Any) -> Any:
    """cuDNN's layer, over the first axis."""
    need(known(x.shape[-1]))
    both, count = net.chance(0.3), net.one(1, 1, 2)
    start = L.fill_constant_batch_size_like(
        x, [count * (2 if both else 1), -1, 4], "float32", 0.0, 1, 1
    )
    drop = net.one(0.0, 0.3)
    return L.lstm(x, start, start, 20, 4, count, drop, both, seed=net.one(-1, 3))[net.one(0, 0, 1)]


@layer((3,), weight=1.5)
def cells(net: Net, x: Any) -> Any:
    need(known(x.shape[-1]))
    cell = net.one(L.GRUCell, L.LSTMCell)(4)
    return L.rnn(cell, x, is_reverse=net.chance(0.3))[0]


@layer((2, 3), weight=1.5)
def static_rnn(net: Net, x: Any) -> Any:
    if len(x.shape) == 2:
        x = L.stack([x, L.scale(x, 0.5), L.tanh(x)])
    need(known(x.shape[0]) and known(x.shape[-1]))
    loop = L.StaticRNN()
    with loop.step():
        word = loop.step_input(x)
        past = loop.memory(shape=[-1, 4], batch_ref=word)
        now = L.fc([word, past], 4, act="tanh")
        loop.update_memory(past, now)
        loop.step_output(now)
    return loop()


@layer((2,), weight=1.5)
def unit(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    start = L.fill_constant_batch_size_like(x, [-1, 4], "float32", 0.0)
    if net.chance(0.5):
        return L.gru_unit(L.fc(x, 12), start, 12)[0]
    return L.lstm_unit(x, start, start)[0]


@layer((2, 3), weight=1.5, exact=True)
def branch(net: Net, x: Any) -> Any:
    big = L.greater_than(L.reduce_mean(x), L.fill_constant([1], "float32", net.one(0.0, 0.5)))
    return L.cond(big, lambda: L.scale(x, 2.0), lambda: L.tanh(x))


@layer((2, 3), weight=1.5)
def loop(net: Net, x: Any) -> Any:
    count = L.fill_constant([1], "int64", 0)
    rounds = L.fill_constant([1], "int64", net.one(0, 1, 3))

    def body(place: Any, value: Any) -> Any:
        return [L.increment(place, 1, in_place=False), L.tanh(L.scale(value, 1.1))]

    made = L.while_loop(lambda place, value: L.less_than(place, rounds), body, [count, x])
    return made[1]


@layer((2,), weight=0.7, exact=True)
def either(net: Net, x: Any) -> Any:
    """Rows go one of two ways."""
    first = L.slice(x, [1], [0], [1])
    fork = L.IfElse(L.greater_than(first, first * 0.0))
    with fork.true_block():
        fork.output(L.scale(fork.input(x), 2.0))
    with fork.false_block():
        fork.output(L.tanh(fork.input(x)))
    return fork()[0]


@layer((2, 3), weight=0.7)
def stopped(net: Net, x: Any) -> Any:
    """No gradient through one of two ways."""
    other = L.tanh(x)
    other.stop_gradient = True
    return L.elementwise_add(L.scale(x, 0.5), other)


@layer((2,), weight=0.7)
def counted(net: Net, x: Any) -> Any:
    """Times a number of steps."""
    steps = L.autoincreased_step_counter(begin=1)
    return L.elementwise_mul(x, L.reshape(L.scale(L.cast(steps, "float32"), 0.1), [1]))


@layer((2,), weight=0.7)
def held_array(net: Net, x: Any) -> Any:
    place = L.fill_constant([1], "int64", 0)
    array = L.array_write(x, place)
    L.array_write(L.tanh(x), L.increment(place, in_place=False), array)
    return L.array_read(array, net.one(place, place))
