"""Sizes computed by NumPy are sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from refluid import fluid
from refluid.ir.variable import Variable

_LAYERS: dict[str, tuple[Callable[[Variable, Callable[[int], int]], Variable], tuple[int, ...]]] = {
    "conv2d": (lambda x, n: fluid.layers.conv2d(x, n(3), n(3), n(2), [n(1), n(1)]), (2, 3, 3, 3)),
    "pool2d": (lambda x, n: fluid.layers.pool2d(x, [n(2), n(2)], "avg", n(2), n(0)), (2, 4, 3, 3)),
    "adaptive": (lambda x, n: fluid.layers.adaptive_pool2d(x, n(2)), (2, 4, 2, 2)),
    "transpose": (
        lambda x, n: fluid.layers.conv2d_transpose(x, n(3), [n(11), n(11)], None, n(0), n(2)),
        (2, 3, 11, 11),
    ),
    "reduce": (lambda x, n: fluid.layers.reduce_mean(x, n(1)), (2, 6, 6)),
    "split": (lambda x, n: fluid.layers.split(x, n(2), n(1))[0], (2, 2, 6, 6)),
    "subscript": (lambda x, n: x[:, n(1)], (2, 6, 6)),
    "unsqueeze": (lambda x, n: fluid.layers.unsqueeze(x, n(1)), (2, 1, 4, 6, 6)),
    "flatten": (lambda x, n: fluid.layers.flatten(x, n(2)), (8, 36)),
    "unfold": (lambda x, n: fluid.layers.unfold(x, [n(2), n(2)], n(2)), (2, 16, 9)),
    "pixel_shuffle": (lambda x, n: fluid.layers.pixel_shuffle(x, n(2)), (2, 1, 12, 12)),
}


@pytest.mark.parametrize("name", _LAYERS)
def test_numbers_of_numpy_are_sizes(name: str) -> None:
    layer, shape = _LAYERS[name]
    results = []
    for whole in (int, np.int64, np.int32):
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            results.append(layer(fluid.data("x", [2, 4, 6, 6]), whole).shape)
    assert results == [shape] * 3


def test_fractions_are_no_sizes() -> None:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        pytest.raises(TypeError, match="whole numbers"),
    ):
        fluid.layers.pool2d(fluid.data("x", [2, 4, 6, 6]), [2.0, 2.0])
