"""Layers that move elements: what they decide follows from sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid import fluid
from tests.fuzzing.table import Net, known, layer, need

L = fluid.layers
ALL = (1, 2, 3, 4, 5)


@layer((2, 3, 4, 5), weight=1.5)
def transpose(net: Net, x: Any) -> Any:
    order = list(range(len(x.shape)))
    net.draw.shuffle(order)
    return L.transpose(x, order)


@layer((2, 3, 4), weight=1.5)
def reshape(net: Net, x: Any) -> Any:
    """Joins neighbours, or keeps the first axes."""
    kept = net.draw.randrange(len(x.shape))
    sizes = [size for size in x.shape[kept:] if known(size)]
    if net.chance(0.5) and len(sizes) == len(x.shape) - kept:
        return L.reshape(x, [0] * kept + [-1])
    last = [x.shape[-1]] if known(x.shape[-1]) else []
    return L.reshape(x, [-1, *last])


@layer((3, 4, 5))
def flatten(net: Net, x: Any) -> Any:
    return L.flatten(x, net.draw.randrange(1, len(x.shape)))


@layer((2, 3))
def unsqueezed(net: Net, x: Any) -> Any:
    axis = net.draw.randrange(len(x.shape) + 1)
    return L.unsqueeze(x, [axis])


@layer((3, 4, 5))
def squeezed(net: Net, x: Any) -> Any:
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    need(ones)
    return L.squeeze(x, [net.draw.choice(ones)])


@layer((2, 3, 4), weight=2)
def sliced(net: Net, x: Any) -> Any:
    axes = sorted(net.draw.sample(range(len(x.shape)), net.draw.randrange(1, len(x.shape))))
    starts = [net.one(0, 1, -3, -1000) for _ in axes]
    ends = [net.one(1000, -1, 3, 1000) for _ in axes]
    return L.slice(x, axes, starts, ends)


@layer((2, 3, 4), weight=3)
def strided(net: Net, x: Any) -> Any:
    axes = sorted(net.draw.sample(range(len(x.shape)), net.draw.randrange(1, len(x.shape))))
    steps = [net.one(1, 2, 3, -1, -2, -3) for _ in axes]
    starts = [net.one(0, 1, -4) if step > 0 else net.one(-1, 1000, -2) for step in steps]
    ends = [net.one(1000, -1) if step > 0 else net.one(0, 1, -1000) for step in steps]
    return L.strided_slice(x, axes, starts, ends, steps)


@layer((2, 3, 4))
def reversed_axes(net: Net, x: Any) -> Any:
    return L.reverse(x, [net.draw.randrange(len(x.shape))])


@layer((2, 3, 4))
def rolled(net: Net, x: Any) -> Any:
    if net.chance(0.3):
        return L.roll(x, net.one(1, -3, 5))
    return L.roll(x, net.one(1, -1, 2, 5), dims=net.draw.randrange(len(x.shape)))


@layer((2, 3, 4), weight=1.5)
def joined(net: Net, x: Any) -> Any:
    count = net.one(2, 2, 3)
    return L.concat([x, *(net.like(x) for _ in range(count - 1))], axis=net.axis(x))


@layer((2, 3))
def stacked(net: Net, x: Any) -> Any:
    return L.stack([x, net.like(x)], axis=net.draw.randrange(len(x.shape)))


@layer((2, 3, 4))
def split(net: Net, x: Any) -> Any:
    axes = [a for a, size in enumerate(x.shape) if known(size) and size > 1]
    need(axes)
    axis = net.draw.choice(axes)
    size = x.shape[axis]
    if size % 2 == 0 and net.chance(0.5):
        return net.draw.choice(L.split(x, 2, dim=axis))
    return net.draw.choice(L.split(x, [1, net.one(-1, size - 1)], dim=axis))


@layer((2, 3, 4), weight=0.7)
def split_free(net: Net, x: Any) -> Any:
    axes = [a for a, size in enumerate(x.shape) if not known(size)]
    need(axes)
    axis = net.draw.choice(axes)
    return net.draw.choice(L.split(x, net.one(2, [1, -1]), dim=axis))


@layer((2, 3))
def expanded(net: Net, x: Any) -> Any:
    return L.expand(x, [net.one(1, 2, 3) for _ in x.shape])


@layer((2, 3, 4), weight=2)
def padded(net: Net, x: Any) -> Any:
    sizes = [net.one(0, 0, 1, 2) for _ in range(2 * len(x.shape))]
    return L.pad(x, sizes, net.one(0.0, 1.5))


@layer((4,), weight=2)
def padded_image(net: Net, x: Any) -> Any:
    mode = net.one("constant", "reflect", "edge")
    return L.pad2d(x, [net.one(0, 1, 2) for _ in range(4)], mode, net.one(0.0, -1.0))


@layer((2, 3, 4))
def padded_like(net: Net, x: Any) -> Any:
    return L.pad_constant_like(L.pad(x, [0, 1] * len(x.shape)), x, net.one(0.0, 2.0))


@layer((2, 3, 4))
def cropped(net: Net, x: Any) -> Any:
    shape = [net.one(-1, 1, 2) for _ in x.shape]
    offsets = [net.one(0, 0, 1) for _ in x.shape]
    return L.crop_tensor(x, shape=shape, offsets=offsets)


@layer((2, 3), weight=1.5)
def gathered(net: Net, x: Any) -> Any:
    rows = L.assign(_int64([net.one(0, 0, 1, 2) for _ in range(net.one(1, 3))]))
    return L.gather(x, rows)


@layer((2, 3))
def gathered_places(net: Net, x: Any) -> Any:
    places = L.assign(_int64([[net.one(0, 1), 0], [0, net.one(0, 1)], [0, 0]]))
    return L.gather_nd(x, places)


@layer((2,))
def scattered(net: Net, x: Any) -> Any:
    """The first two rows are replaced, or added to."""
    rows = L.assign(_int64([1, 0]))
    need(known(x.shape[1]))
    new = L.fill_constant([2, x.shape[1]], "float32", 0.5)
    return L.scatter(x, rows, new, overwrite=net.chance(0.5))


@layer((2,))
def triangle(net: Net, x: Any) -> Any:
    return net.one(L.tril, L.triu)(x, diagonal=net.one(-1, 0, 2))


@layer((2, 3), weight=0.7)
def as_first(net: Net, x: Any) -> Any:
    """Expanded to another's shape."""
    one = L.reduce_mean(x, 0, keep_dim=True)
    return L.expand_as(one, x)


@layer((2, 3, 4))
def filled_like(net: Net, x: Any) -> Any:
    """A constant with as many rows as x, added to it."""
    ones = L.fill_constant_batch_size_like(x, [-1, *[1] * (len(x.shape) - 1)], "float32", 0.5)
    return L.elementwise_add(L.elementwise_mul(ones, ones), x) if net.chance(0.2) else x * ones


@layer((2, 3, 4))
def by_its_shape(net: Net, x: Any) -> Any:
    """Divided by its own number of rows or elements, read while it runs."""
    shape = L.cast(L.shape(x), "float32")
    axis = net.draw.randrange(len(x.shape))
    return L.elementwise_div(x, L.slice(shape, [0], [axis], [axis + 1]))


@layer((3,))
def reshaped_by_variable(net: Net, x: Any) -> Any:
    size = L.slice(L.shape(x), [0], [1], [2])
    return L.reshape(x, [size, -1])


@layer((2,))
def unstacked(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    parts = L.unstack(x, axis=1)
    return net.draw.choice(parts) if net.chance(0.5) else L.stack(parts[::-1], axis=1)


@layer((2,), weight=0.7)
def numbered(net: Net, x: Any) -> Any:
    """Plus the number of each row."""
    ones = L.fill_constant_batch_size_like(x, [-1, 1], "float32", 1.0)
    return L.elementwise_add(x, L.cumsum(ones, axis=0))


def _int64(values: Any) -> Any:
    return np.array(values, "int64")


@layer((2, 3, 4))
def with_constant(net: Net, x: Any) -> Any:
    """A constant that is overwritten by a sum, as what is used last may be."""
    one = L.assign(np.array([net.one(0.5, 2.0)], "float32"))
    kind = net.one("sum", "tanh", "increment")
    if kind == "sum":
        return x * L.elementwise_add(one, L.reshape(L.reduce_mean(x), [1]))
    return x * (L.tanh(one) if kind == "tanh" else L.increment(one, 0.5))


def _count(net: Net, x: Any) -> Any:
    """1, 2 or 3, as numbers say (int32)."""
    above = L.greater_than(L.reduce_mean(x), L.fill_constant([1], "float32", 0.0))
    some = L.reshape(L.cast(above, "int32"), [1])
    return L.elementwise_add(some, L.fill_constant([1], "int32", net.one(1, 2)))


@layer((2, 3), exact=True)
def repeated_by_value(net: Net, x: Any) -> Any:
    times: list[Any] = [1] * len(x.shape)
    times[net.draw.randrange(len(times))] = _count(net, x)
    return L.expand(x, times)


@layer((2, 3), exact=True)
def cut_by_value(net: Net, x: Any) -> Any:
    axis = net.draw.randrange(len(x.shape))
    return L.slice(x, [axis], [0], [_count(net, x)])


@layer((2,), exact=True)
def filled_by_value(net: Net, x: Any) -> Any:
    """As many rows as numbers say, each the mean of x."""
    ones = L.fill_constant([_count(net, x), 3], "float32", 1.0)
    return ones * L.reshape(L.reduce_mean(x), [1])


@layer((2,), exact=True)
def numbers_by_value(net: Net, x: Any) -> Any:
    row = L.range(0, _count(net, x), 1, "int32")
    return L.unsqueeze(L.cast(row, "float32"), [1]) * L.reshape(L.reduce_mean(x), [1])
