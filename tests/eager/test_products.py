"""Products that refluid multiplies and derives itself, and those that torch does: one result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.fluid import dygraph
from refluid.kernels import processor, products

layers = fluid.layers


def computed(seed: int) -> list[Any]:
    """Results and gradients of products of random shapes, by each operator that multiplies."""
    draws = np.random.default_rng(seed)
    rows, inner, columns = (int(draws.integers(1, 90)) for _ in range(3))
    found: list[Any] = []

    def variable(*shape: int) -> Any:
        made = dygraph.to_variable(draws.standard_normal(shape).astype(np.float32))
        made.stop_gradient = bool(draws.random() < 0.2)
        return made

    with dygraph.guard(fluid.CPUPlace()):
        act = [None, "relu", "tanh", "sigmoid"][seed % 4]
        linear = dygraph.Linear(inner, columns, act=act)
        for one in linear.parameters():
            one.set_value(draws.standard_normal(one.shape).astype(np.float32))
        x, three, wide = variable(rows, inner), variable(2, rows, inner), variable(inner, columns)
        results = [
            linear(x),
            linear(three),
            layers.matmul(x, wide),
            layers.matmul(variable(inner, rows), wide, transpose_x=True),
            layers.matmul(x, variable(columns, inner), transpose_y=True, alpha=0.5),
            layers.mul(three, wide, x_num_col_dims=2),
            layers.mul(x, variable(inner, 2, columns)),
        ]
        total = layers.sums([layers.reduce_sum(layers.square(one)) for one in results])
        total.backward()
        found += [one.numpy() for one in results]
        found += [one.gradient() for one in (*linear.parameters(), x, three, wide)]
    return found


@pytest.mark.parametrize("seed", range(12))
def test_both_ways_give_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    wanted = computed(seed)
    monkeypatch.setattr(products, "_WORTH_PYTHON", 2**12)
    monkeypatch.setattr(products, "_ENOUGH", 2**12)
    monkeypatch.setattr(products, "_LARGE", 2**14)
    speed = 2.0 if torch.backends.mkldnn.is_available() else 0.0
    monkeypatch.setattr(processor, "_speeds", {False: speed, True: speed})
    monkeypatch.setattr(products, "onednn_speed", lambda *_: speed)
    for one, other in zip(computed(seed), wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-3)
