"""Recurrent networks and loops whose bodies are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refluid import fluid
from tests.fuzzing.table import Net, known, layer, need

L = fluid.layers
WIDTH, WORDS = 4, 7

# From the values of a round (rows, WIDTH), the newest last: the next one.
Piece = Callable[[Net, list[Any]], Any]


def _weight(*shape: int) -> Any:
    return L.create_parameter([*shape], "float32")


def _dense(net: Net, found: list[Any]) -> Any:
    return L.fc([found[-1], net.one(*found)], WIDTH, act=net.one(None, "tanh", "relu"))


def _product(net: Net, found: list[Any]) -> Any:
    return L.mul(found[-1], _weight(WIDTH, WIDTH))


def _twice(net: Net, found: list[Any]) -> Any:
    weight = _weight(WIDTH, WIDTH)
    once = L.matmul(found[-1], weight, transpose_y=net.chance(0.5))
    return L.matmul(L.tanh(once), weight)


def _shifted(net: Net, found: list[Any]) -> Any:
    return L.elementwise_add(found[-1], _weight(WIDTH))


def _sum(net: Net, found: list[Any]) -> Any:
    return net.one(L.elementwise_add, L.elementwise_sub)(found[-1], net.one(*found))


def _several(net: Net, found: list[Any]) -> Any:
    return L.sums([net.one(*found) for _ in range(3)])


def _gate(net: Net, found: list[Any]) -> Any:
    return L.elementwise_mul(L.sigmoid(found[-1]), net.one(*found))


def _parts(net: Net, found: list[Any]) -> Any:
    return L.concat(L.split(found[-1], 2, dim=1)[:: net.one(1, -1)], axis=1)


def _changed(net: Net, found: list[Any]) -> Any:
    """A value that is used, overwritten and used again."""
    value = L.scale(found[-1], 0.5)
    product = L.mul(value, _weight(WIDTH, WIDTH))
    L.assign(L.scale(product, net.one(0.5, 1.0)), value)
    return L.elementwise_add(product, value)


def _soft(net: Net, found: list[Any]) -> Any:
    return L.softmax(found[-1])


def _bent(net: Net, found: list[Any]) -> Any:
    return net.one(L.tanh, L.relu, L.square, lambda x: L.scale(x, -0.5))(found[-1])


def _looked_up(net: Net, found: list[Any]) -> Any:
    """A table's rows, by numbers that are made of the values."""
    sums = L.clip(L.abs(L.reduce_sum(found[-1], dim=1, keep_dim=True)), 0.0, WORDS - 1.0)
    ids = L.cast(sums, "int64")
    ids.stop_gradient = True
    rows = L.embedding(ids, [WORDS, WIDTH], is_sparse=net.chance(0.5))
    return L.elementwise_add(found[-1], L.reshape(rows, [-1, WIDTH]))


def _chosen(net: Net, found: list[Any]) -> Any:
    """One of two ways, by the values."""
    big = L.greater_than(L.reduce_mean(found[-1]), L.fill_constant([1], "float32", 0.1))
    other = net.one(*found)
    return L.cond(big, lambda: L.scale(found[-1], 0.5), lambda: L.elementwise_add(other, other))


SMOOTH: list[Piece] = [
    *(_dense, _product, _twice, _shifted, _sum, _sum, _several),
    *(_gate, _parts, _changed, _soft, _bent),
]
EXACT: list[Piece] = [*SMOOTH, _looked_up, _looked_up, _chosen]


def _body(net: Net, pieces: list[Piece], begin: list[Any]) -> list[Any]:
    """The values of a round."""
    found = list(begin)
    for _ in range(net.draw.randint(1, 5)):
        found.append(net.one(*pieces)(net, found))
    return found


def _stepped(net: Net, x: Any, pieces: list[Piece]) -> Any:
    if len(x.shape) == 2:
        x = L.stack([x, L.scale(x, 0.5), L.tanh(x)])
    need(known(x.shape[0]) and known(x.shape[-1]))
    x, loop = L.fc(x, WIDTH, num_flatten_dims=2), L.StaticRNN()
    with loop.step():
        word = loop.step_input(x)
        past = [loop.memory(shape=[-1, WIDTH], batch_ref=word) for _ in range(net.one(1, 2))]
        found = _body(net, pieces, [word, *past])
        for one in past:
            loop.update_memory(one, net.one(*found[len(past) :]))
        loop.step_output(found[-1])
        if net.chance(0.3):
            loop.step_output(net.one(*found))
    made = loop()
    return L.elementwise_add(*made) if isinstance(made, list) else made


def _of_words(net: Net, x: Any, pieces: list[Piece]) -> Any:
    need(known(x.shape[-1]))
    x, loop = L.fc(x, WIDTH), L.DynamicRNN()
    with loop.block():
        word = loop.step_input(x)
        past = [loop.memory(shape=[WIDTH], value=net.one(0.0, 0.5)) for _ in range(net.one(1, 2))]
        found = _body(net, pieces, [word, *past])
        for one in past:
            loop.update_memory(one, net.one(*found[len(past) :]))
        loop.output(found[-1])
    return loop()


def _counted(net: Net, x: Any, pieces: list[Piece]) -> Any:
    need(known(x.shape[-1]))
    x = L.fc(x, WIDTH)
    count, rounds = (L.fill_constant([1], "int64", one) for one in (0, net.one(1, 2, 4)))

    def body(place: Any, value: Any, other: Any) -> Any:
        found = _body(net, pieces, [x, other, value])
        return [L.increment(place, 1, in_place=False), found[-1], net.one(*found)]

    start = [count, x, L.scale(x, 0.5)]
    made = L.while_loop(lambda place, value, other: L.less_than(place, rounds), body, start)
    return L.elementwise_add(made[1], made[2])


@layer((2, 3), weight=1.5)
def steps_of_time(net: Net, x: Any) -> Any:
    return _stepped(net, x, SMOOTH)


@layer((2, 3), weight=1.5, exact=True)
def steps_that_look_up(net: Net, x: Any) -> Any:
    return _stepped(net, x, EXACT)


@layer((2,), ragged=True, weight=1.5)
def words_one_by_one(net: Net, x: Any) -> Any:
    return _of_words(net, x, SMOOTH)


@layer((2,), ragged=True, weight=1.5, exact=True)
def words_that_look_up(net: Net, x: Any) -> Any:
    return _of_words(net, x, EXACT)


@layer((2,), weight=1.5)
def rounds(net: Net, x: Any) -> Any:
    return _counted(net, x, SMOOTH)


@layer((2,), weight=1.5, exact=True)
def rounds_that_look_up(net: Net, x: Any) -> Any:
    return _counted(net, x, EXACT)
