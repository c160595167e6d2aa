"""The loops of `one_pass.py`: what an update makes of a part of a parameter, in the cache.

Each body is given the addresses of a parameter and of what it has, and how far on the part begins;
how many numbers the part has; the rate; a column for sums; room for twice as many numbers; and
numbers of the update. Its loops stand for themselves: LLVM makes vectors of those with few arrays.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, cast

import numpy as np

from refluid.kernels.compiled import compiled
from refluid.kernels.rows.addresses import array_at
from refluid.kernels.teams import for_team, taken
from refluid.kernels.vectors import squares

_body: Any = None  # each loop has its own


def _all_parts(
    counter: Any,
    members: Any,
    places: Any,
    sizes: Any,
    firsts: Any,
    rates: Any,
    sums: Any,
    room: Any,
    n: Any,
) -> None:
    """The body of every part of every parameter.

    places: [kinds, parameters], addresses; sizes: how many numbers a parameter has; firsts: its
    first part's number, and at the end that of all parts; sums: [2, parts]; room: [threads, twice
    the size of a part].
    """
    own, size, at, part = room[taken(members)], room.shape[1] // 2, 0, taken(counter)
    while part < firsts[-1]:
        while firsts[at + 1] <= part:
            at += 1
        begin = (part - firsts[at]) * size
        count = min(size, sizes[at] - begin)
        _body(places[:, at], 4 * begin, count, np.float32(rates[at]), sums[:, part], own, n)
        part = taken(counter)


def _for_parts(body: Any) -> Any:
    """`_all_parts` of that body, by a team."""
    known = _all_parts.__globals__ | {"_body": compiled(body)}
    made = FunctionType(_all_parts.__code__, known, body.__name__)
    made.__module__, made.__qualname__ = body.__module__, body.__qualname__
    return for_team(cast(Any, made))


@compiled
def decay(value: Any, new: Any, keep: Any, count: Any) -> None:
    """value = keep * value + (1 - keep) * new."""
    kept, added = np.float32(keep), np.float32(1.0 - keep)
    for i in range(count):
        value[i] = kept * value[i] + added * new[i]


@compiled
def decay_to_squares(value: Any, new: Any, keep: Any, count: Any) -> None:
    """value = keep * value + (1 - keep) * new²."""
    kept, added = np.float32(keep), np.float32(1.0 - keep)
    for i in range(count):
        value[i] = kept * value[i] + added * new[i] * new[i]


@compiled
def penalized(at: Any, skip: Any, count: Any, own: Any, times: Any) -> Any:
    """A part of the gradient, with so many times the parameter, if any, in the second half of the
    room."""
    grad = array_at(at[1] + skip, own, (count,))
    if times != 0.0:
        param = array_at(at[0] + skip, own, (count,))
        half, added = len(own) // 2, np.float32(times)
        total = own[half : half + count]
        for i in range(count):
            total[i] = grad[i] + added * param[i]
        grad = total
    return grad


@_for_parts
def decayed_adagrad(
    at: Any, skip: Any, count: Any, rate: Any, _sums: Any, own: Any, n: Any
) -> None:
    """Of parameter, gradient, moment. n: decay, epsilon, and that of weights."""
    param = array_at(at[0] + skip, own, (count,))
    grad = penalized(at, skip, count, own, n[2])
    moment = array_at(at[2] + skip, own, (count,))
    decay_to_squares(moment, grad, n[0], count)
    epsilon = np.float32(n[1])
    for i in range(count):
        param[i] -= rate * grad[i] / (np.sqrt(moment[i]) + epsilon)


@_for_parts
def rmsprop(at: Any, skip: Any, count: Any, rate: Any, _sums: Any, own: Any, n: Any) -> None:
    """Of parameter, gradient, moment, square, and mean if centered.

    n: decay, epsilon, momentum, whether it is centered, and the decay of weights.
    """
    param = array_at(at[0] + skip, own, (count,))
    grad = penalized(at, skip, count, own, n[4])
    moment = array_at(at[2] + skip, own, (count,))
    square = array_at(at[3] + skip, own, (count,))
    decay_to_squares(square, grad, n[0], count)
    epsilon, momentum = np.float32(n[1]), np.float32(n[2])
    for i in range(count):
        own[i] = square[i] + epsilon
    if n[3] > 0.0:
        mean = array_at(at[4] + skip, own, (count,))
        decay(mean, grad, n[0], count)
        for i in range(count):
            own[i] -= mean[i] * mean[i]
    for i in range(count):
        moment[i] = momentum * moment[i] + rate * grad[i] / np.sqrt(own[i])
    for i in range(count):
        param[i] -= moment[i]


@_for_parts
def adamax(at: Any, skip: Any, count: Any, rate: Any, _sums: Any, own: Any, n: Any) -> None:
    """Of parameter, gradient, moment, norm. n: beta1, beta2, epsilon, decay of weights."""
    param = array_at(at[0] + skip, own, (count,))
    grad = penalized(at, skip, count, own, n[3])
    moment = array_at(at[2] + skip, own, (count,))
    norm = array_at(at[3] + skip, own, (count,))
    decay(moment, grad, n[0], count)
    keep, epsilon = np.float32(n[1]), np.float32(n[2])
    for i in range(count):
        old, new = keep * norm[i] + epsilon, np.abs(grad[i])
        norm[i] = old if old > new or old != old else new  # NaN stays
    for i in range(count):
        param[i] -= rate * moment[i] / norm[i]


@_for_parts
def adadelta(at: Any, skip: Any, count: Any, _rate: Any, _sums: Any, own: Any, n: Any) -> None:
    """Of parameter, gradient, squared gradients, squared updates. n: rho, epsilon, decay of
    weights."""
    param = array_at(at[0] + skip, own, (count,))
    grad = penalized(at, skip, count, own, n[2])
    square = array_at(at[2] + skip, own, (count,))
    update = array_at(at[3] + skip, own, (count,))
    decay_to_squares(square, grad, n[0], count)
    epsilon = np.float32(n[1])
    for i in range(count):
        own[i] = np.sqrt((update[i] + epsilon) / (square[i] + epsilon)) * grad[i]
    decay_to_squares(update, own, n[0], count)
    for i in range(count):
        param[i] -= np.sqrt((update[i] + epsilon) / (square[i] + epsilon)) * grad[i]


@compiled
def to_ratios(
    own: Any, param: Any, moment: Any, square: Any, decayed: Any, epsilon: Any, count: Any
) -> None:
    """own = moment / (sqrt(square) + epsilon) + decayed * param."""
    for i in range(count):
        own[i] = moment[i] / (np.sqrt(square[i]) + epsilon) + decayed * param[i]


@_for_parts
def lamb_lengths(at: Any, skip: Any, count: Any, _rate: Any, sums: Any, own: Any, n: Any) -> None:
    """Moves the moments on; sums of the squares of the parameter and of its ratios.

    Of parameter, gradient, both moments. n: beta1, beta2, epsilon, decay.
    """
    param = array_at(at[0] + skip, own, (count,))
    grad = array_at(at[1] + skip, own, (count,))
    moment = array_at(at[2] + skip, own, (count,))
    square = array_at(at[3] + skip, own, (count,))
    decay(moment, grad, n[0], count)
    decay_to_squares(square, grad, n[1], count)
    to_ratios(own, param, moment, square, np.float32(n[3]), np.float32(n[2]), count)
    sums[0] = squares(param, param, 0, count, np.float32(0))
    sums[1] = squares(own, own, 0, count, np.float32(0))


@_for_parts
def lamb_steps(at: Any, skip: Any, count: Any, rate: Any, _sums: Any, own: Any, n: Any) -> None:
    """param -= rate * ratio, with what `lamb_lengths` is given."""
    param = array_at(at[0] + skip, own, (count,))
    moment = array_at(at[2] + skip, own, (count,))
    square = array_at(at[3] + skip, own, (count,))
    to_ratios(own, param, moment, square, np.float32(n[3]), np.float32(n[2]), count)
    for i in range(count):
        param[i] -= rate * own[i]


@_for_parts
def lars_lengths(at: Any, skip: Any, count: Any, _rate: Any, sums: Any, own: Any, _n: Any) -> None:
    """Sums of the squares of parameter and gradient."""
    param = array_at(at[0] + skip, own, (count,))
    grad = array_at(at[1] + skip, own, (count,))
    sums[0] = squares(param, param, 0, count, np.float32(0))
    sums[1] = squares(grad, grad, 0, count, np.float32(0))


@_for_parts
def lars_steps(at: Any, skip: Any, count: Any, rate: Any, _sums: Any, own: Any, n: Any) -> None:
    """Of parameter, gradient, velocity. n: momentum, decay."""
    param = array_at(at[0] + skip, own, (count,))
    grad = array_at(at[1] + skip, own, (count,))
    velocity = array_at(at[2] + skip, own, (count,))
    keep, decayed = np.float32(n[0]), np.float32(n[1])
    for i in range(count):
        velocity[i] = keep * velocity[i] + rate * (grad[i] + decayed * param[i])
    for i in range(count):
        param[i] -= velocity[i]
