"""The loops of `sigmoid_losses.py`: what they need between is made of a part in its own place."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.compiled import compiled
from refluid.kernels.teams import for_team, taken
from refluid.kernels.vectors import exponentials


@compiled
def to_powers(x: Any, out: Any) -> None:
    """out = exp(-|x|), of one part."""
    count = len(x)
    for i in range(count):
        out[i] = -np.abs(x[i])
    exponentials(out, out, 0, count, np.float32(0))


@compiled
def log1p(power: Any) -> Any:
    """log(1 + power) of float32 from 0 to 1, all digits of small ones: 2 * atanh(p / (2 + p)).

    The ratio r is up to 1/3, so that the terms left out are below 2e-9 of the result; the first,
    2 * r, is written p - p * r, of which the greater part is exact.
    """
    ratio = power / (np.float32(2) + power)
    square = ratio * ratio
    more = square * np.float32(1 / 15) + np.float32(1 / 13)
    more = square * more + np.float32(1 / 11)
    more = square * more + np.float32(1 / 9)
    more = square * more + np.float32(1 / 7)
    more = square * more + np.float32(1 / 5)
    more = square * more + np.float32(1 / 3)
    return power - ratio * (power - np.float32(2) * square * more)


@for_team
def losses(counter: Any, x: Any, label: Any, ignored: Any, out: Any, part: Any) -> None:
    """out = max(x, 0) - x * label + log1p(exp(-|x|)), times 0 where a label is ignored."""
    index, none = np.float32(ignored), np.float32(0)
    begin = taken(counter) * part
    while begin < len(x):
        end = min(begin + part, len(x))
        given, labels, made = x[begin:end], label[begin:end], out[begin:end]
        to_powers(given, made)
        for i in range(end - begin):
            counts = np.float32(np.trunc(labels[i]) != index)
            most = none if given[i] < none else given[i]  # NaN stays
            made[i] = counts * (most - given[i] * labels[i] + log1p(made[i]))
        begin = taken(counter) * part


@for_team
def slopes(counter: Any, x: Any, label: Any, grad: Any, ignored: Any, out: Any, part: Any) -> None:
    """out = grad * (sigmoid(x) - label), times 0 where a label is ignored."""
    index, one = np.float32(ignored), np.float32(1)
    begin = taken(counter) * part
    while begin < len(x):
        end = min(begin + part, len(x))
        given, labels, made = x[begin:end], label[begin:end], out[begin:end]
        flowing = grad[begin:end]
        to_powers(given, made)
        for i in range(end - begin):
            counts = np.float32(np.trunc(labels[i]) != index)
            share = (made[i] if given[i] < np.float32(0) else one) / (one + made[i])
            made[i] = counts * ((share - labels[i]) * flowing[i])
        begin = taken(counter) * part
