"""What loops of recurrent units do with rows of float32, which lie in the caches meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.compiled import compiled
from refluid.kernels.vectors import added, sigmoids, tangents

IDENTITY, SIGMOID, TANH, RELU = range(4)


@compiled
def activate(values: Any, kind: Any) -> None:
    """The activation of that number, in the place of what it is given."""
    if kind == SIGMOID:
        sigmoids(values, values, 0, len(values), np.float32(0))
    elif kind == TANH:
        tangents(values, values, 0, len(values), np.float32(0))
    elif kind == RELU:
        for j in range(len(values)):
            values[j] = np.float32(0) if values[j] <= 0 else values[j]


@compiled
def bend(grads: Any, results: Any, kind: Any) -> None:
    """Gradients of an activation's results become those of what it was given."""
    one = np.float32(1)
    if kind == SIGMOID:
        for j in range(len(grads)):
            grads[j] *= results[j] * (one - results[j])
    elif kind == TANH:
        for j in range(len(grads)):
            grads[j] *= one - results[j] * results[j]
    elif kind == RELU:
        for j in range(len(grads)):
            grads[j] = np.float32(0) if results[j] <= 0 else grads[j]


@compiled
def put(target: Any, source: Any) -> None:
    """target = source."""
    for j in range(len(target)):
        target[j] = source[j]


@compiled
def add(target: Any, source: Any) -> None:
    """target += source."""
    for j in range(len(target)):
        target[j] += source[j]


@compiled
def put_product(target: Any, x: Any, y: Any) -> None:
    """target = x * y, and may be one of them."""
    for j in range(len(target)):
        target[j] = x[j] * y[j]


@compiled
def add_product(target: Any, x: Any, y: Any) -> None:
    """target += x * y."""
    for j in range(len(target)):
        target[j] += x[j] * y[j]


@compiled
def multiply(out: Any, a: Any, b: Any) -> None:
    """out = a · b of few lines, where a call of a library takes as long; b lies row by row."""
    width = out.shape[1]
    for line in range(len(out)):
        own = out[line]
        for j in range(width):
            own[j] = np.float32(0)
        for k in range(len(b)):
            added(b[k], own, 0, width, a[line, k])
