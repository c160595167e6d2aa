"""A plan that is kept for all sizes gives what one made for the size gives, gradients included."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.build import using
from refluid.core.places import CPUPlace
from refluid.eager import Eager, VarBase

layers = fluid.layers
# Of (rows, channels, height, width), each with attributes that sizes don't decide.
LAYERS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: layers.reshape(x, [0, -1]),
    "flatten": lambda x: layers.flatten(x, 2),
    "transpose": lambda x: layers.transpose(x, [2, 0, 3, 1]),
    "softmax": lambda x: layers.softmax(x, axis=1),
    "reduce": lambda x: layers.reduce_mean(x, dim=[0, -1], keep_dim=True),
    "slice": lambda x: layers.slice(x, [2, 3], [-3, 0], [1000, -1]),
    "backwards": lambda x: layers.strided_slice(x, [2], [1000], [-1000], [-2]),
    "concat": lambda x: layers.concat([x, x * 2.0], axis=2),
    "broadcast": lambda x: x * layers.reduce_sum(x, dim=[2, 3], keep_dim=True),
    "pad": lambda x: layers.pad2d(x, [1, 2, 0, 1], mode="reflect"),
    "pool, ceil": lambda x: layers.pool2d(x, 3, "avg", 2, 1, ceil_mode=True),
    "pool, adaptive": lambda x: layers.adaptive_pool2d(x, [3, 2], "avg"),
    "resize": lambda x: layers.resize_nearest(x, scale=2.0),
    "norm": lambda x: layers.l2_normalize(x, axis=1),
    "cumsum": lambda x: layers.cumsum(x, axis=2, reverse=True),
    "expand": lambda x: layers.expand(x, [1, 2, 1, 3]),
    "unfold": lambda x: layers.unfold(x, [3, 3], 2, 1),
    "halves": lambda x: layers.split(x, 2, dim=1)[1],
}


def results(backend: Eager, layer: Callable[[Any], Any], value: np.ndarray) -> list[np.ndarray]:
    with using(backend):
        x = VarBase(torch.from_numpy(value.copy()))
        x.stop_gradient = False
        out = layer(x)
        (out * out).backward()
        return [out.numpy(), x.gradient()]


@pytest.mark.parametrize("name", LAYERS)
def test_sizes_at_random(name: str) -> None:
    source, kept = random.Random(name), Eager(CPUPlace())
    for _ in range(12):
        shape = (source.randint(1, 5), 2 * source.randint(1, 4), *source.choices(range(3, 14), k=2))
        value = np.random.RandomState(source.randrange(1000)).randn(*shape).astype("float32")
        found = results(kept, LAYERS[name], value)
        for one, other in zip(found, results(Eager(CPUPlace()), LAYERS[name], value), strict=True):
            assert one.shape == other.shape, (name, shape)
            assert np.array_equal(one, other), (name, shape)


def test_attributes_and_types_at_random() -> None:
    source, kept = random.Random(5), Eager(CPUPlace())
    for _ in range(40):
        factor, axis = source.choice([1.0, 2.0, 3.0, -1.0]), source.choice([0, 1])
        kind = source.choice(["float32", "float64"])
        value = np.random.RandomState(source.randrange(1000)).randn(3, 4).astype(kind)
        with using(kept):
            scaled = layers.scale(VarBase(torch.from_numpy(value.copy())), factor)
            found = layers.reduce_sum(scaled, dim=[axis]).numpy()
        np.testing.assert_allclose(found, (value * np.array(factor, kind)).sum(axis), rtol=1e-5)
        assert found.dtype == kind
