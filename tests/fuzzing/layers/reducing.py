"""Layers that reduce, order, choose or compare."""

from __future__ import annotations

from typing import Any

from refluid import fluid
from tests.fuzzing.table import Net, known, layer, need

L = fluid.layers


@layer((2, 3, 4, 5), weight=2)
def reduced(net: Net, x: Any) -> Any:
    kind = net.one("sum", "mean", "max", "min", "sum", "mean")
    axes = sorted(net.draw.sample(range(len(x.shape)), net.draw.randrange(1, len(x.shape))))
    return getattr(L, f"reduce_{kind}")(x, axes, keep_dim=net.chance(0.5))


@layer((2, 3), weight=0.5)
def product(net: Net, x: Any) -> Any:
    return L.reduce_prod(L.sigmoid(x), net.axis(x), keep_dim=net.chance(0.5))


@layer((2, 3), weight=0.7)
def logsumexp(net: Net, x: Any) -> Any:
    return L.logsumexp(x, dim=net.draw.randrange(len(x.shape)), keepdim=True)


@layer((1, 2, 3), exact=True)
def ordered(net: Net, x: Any) -> Any:
    values, places = L.argsort(x, net.axis(x), descending=net.chance(0.5))
    return net.one(values, values, L.cast(places, "float32"))


@layer((2, 3), weight=1.5, exact=True)
def largest(net: Net, x: Any) -> Any:
    need(known(x.shape[-1]) and x.shape[-1] > 1)
    values, places = L.topk(x, net.draw.randrange(1, x.shape[-1]))
    return net.one(values, values, L.cast(places, "float32"))


@layer((2, 3), weight=0.5, exact=True)
def largest_of_free(net: Net, x: Any) -> Any:
    axis = [a for a, size in enumerate(x.shape) if not known(size)]
    need(axis)
    order = [a for a in range(len(x.shape)) if a != axis[0]] + axis[:1]
    return L.topk(L.transpose(x, order), net.one(1, 2))[0]


@layer((2, 3), exact=True)
def place_of_largest(net: Net, x: Any) -> Any:
    made = net.one(L.argmax, L.argmin)(x, axis=net.draw.randrange(len(x.shape)))
    return L.cast(made, "float32")


@layer((2,), exact=True)
def one_hot(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    place = L.unsqueeze(L.argmax(x, axis=1), [1])
    return L.one_hot(place, net.one(x.shape[1], x.shape[1] + 2))


@layer((2, 3, 4), exact=True)
def where_above(net: Net, x: Any) -> Any:
    above = L.greater_than(x, L.reduce_mean(x, 0, keep_dim=True) + x * 0.0)
    chosen = L.cast(above, "float32")
    return x * chosen + L.scale(x, 0.1)


@layer((2, 3), exact=True)
def masked(net: Net, x: Any) -> Any:
    return x * L.cast(net.one(L.less_than, L.not_equal)(x, net.like(x)), "float32")


@layer((2, 3), exact=True, weight=0.7)
def rounded_division(net: Net, x: Any) -> Any:
    whole = L.cast(L.clip(L.scale(x, 10.0), -50.0, 50.0), "int64")
    seven = L.fill_constant([1], "int64", 7)
    return L.cast(net.one(L.elementwise_mod, L.elementwise_floordiv)(whole, seven), "float32")


@layer((2,), exact=True, weight=0.7)
def chosen_rows(net: Net, x: Any) -> Any:
    """The rows whose first number is positive: how many depends on values."""
    first = L.slice(x, [1], [0], [1])
    places = L.where(L.greater_than(first, first * 0.0))
    rows = L.slice(places, [1], [0], [1])
    return L.gather(x, L.squeeze(rows, [1]))


@layer((2, 3), weight=0.7)
def multiplied_with_itself(net: Net, x: Any) -> Any:
    return L.matmul(x, x, transpose_y=True, alpha=net.one(1.0, 0.25))


@layer((2, 3), weight=0.7)
def product_of_columns(net: Net, x: Any) -> Any:
    return L.matmul(x, x, transpose_x=True, alpha=0.25)


@layer((2, 3), weight=0.7)
def smoothed(net: Net, x: Any) -> Any:
    return L.label_smooth(L.softmax(x), epsilon=0.1)


@layer((2, 3, 4), weight=0.5)
def total(net: Net, x: Any) -> Any:
    return L.sums([x, net.like(x), x])


@layer((2, 3, 4), weight=0.5)
def scaled_by_mean(net: Net, x: Any) -> Any:
    return L.elementwise_mul(x, L.reshape(L.mean(x), [1]))


@layer((2, 3), weight=0.7, exact=True)
def largest_by_value(net: Net, x: Any) -> Any:
    need(known(x.shape[-1]) and x.shape[-1] > 2)
    above = L.greater_than(L.reduce_mean(x), L.fill_constant([1], "float32", 0.0))
    count = L.reshape(L.cast(above, "int32"), [1]) + 1
    return L.topk(x, count)[0]


@layer((2,), weight=0.7, exact=True)
def different(net: Net, x: Any) -> Any:
    """The different whole numbers in x."""
    whole = L.cast(L.clip(L.reshape(x, [-1]), -3.0, 3.0), "int64")
    return L.cast(L.unique(whole)[0], "float32")


@layer((2,), weight=0.7, exact=True)
def mask_of_lengths(net: Net, x: Any) -> Any:
    """1 for as many columns as the first number of a row says."""
    first = L.squeeze(L.slice(x, [1], [0], [1]), [1])
    lengths = L.cast(L.clip(first, 0.0, 4.0), "int64")
    return L.sequence_mask(lengths, net.one(None, 5), "float32") * L.reshape(L.reduce_mean(x), [1])
