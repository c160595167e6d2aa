"""`fleet.utils.recompute`: gradients to the bit as without, and less that is kept."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import refluid.paddle as paddle
from refluid.paddle.distributed.fleet.recompute import recompute_sequential
from refluid.paddle.distributed.fleet.utils import recompute


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    paddle.disable_static()
    try:
        yield
    finally:
        paddle.enable_static()


def _gradients(seed: int, again: bool) -> list[Any]:
    """Of a random network, some of whose layers are taken twice."""
    source, numbers = random.Random(seed), np.random.RandomState(seed)
    width, rows = source.randint(2, 6), source.randint(1, 5)
    layers = [
        paddle.nn.Sequential(
            paddle.nn.Linear(width, width, bias_attr=source.choice([None, False])),
            paddle.nn.Dropout(source.choice([0.0, 0.5])),
            source.choice([paddle.nn.Tanh, paddle.nn.ReLU])(),
        )
        for _ in range(3)
    ]
    parameters = [one for layer in layers for one in layer.parameters()]
    for one in parameters:
        one.set_value(numbers.randn(*one.shape).astype("float32"))
    paddle.seed(seed)
    x = paddle.to_tensor(numbers.randn(rows, width).astype("float32"))
    x.stop_gradient = source.random() < 0.5
    half, y = source.random() < 0.3, x
    with paddle.amp.auto_cast(half, dtype="bfloat16"):
        for _ in range(source.randint(1, 5)):
            layer, chosen = source.choice(layers), source.random() < 0.7
            y = recompute(layer, y) if again and chosen else layer(y)
    paddle.mean(y * y).backward()
    return [
        y.numpy(),
        *[None if one.grad is None else one.grad.numpy() for one in (x, *parameters)],
    ]


@pytest.mark.parametrize("seed", range(30))
def test_gradients_are_those_without(seed: int) -> None:
    for own, other in zip(_gradients(seed, True), _gradients(seed, False), strict=True):
        assert (own is None) == (other is None)
        if own is not None:
            np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-7)


def test_sequences_and_several_results() -> None:
    layers = [paddle.nn.Linear(3, 3) for _ in range(5)]
    x = paddle.ones([2, 3])
    plain = paddle.nn.Sequential(*layers)(x)
    parts = recompute_sequential({"segments": 2}, layers, x)
    np.testing.assert_array_equal(plain.numpy(), parts.numpy())
    runs = []

    def two(a: Any, scale: float, pair: list[Any]) -> Any:
        runs.append(1)
        return a * scale, pair[0] + pair[1]

    a, b = paddle.ones([2]), paddle.full([2], 3.0)
    a.stop_gradient = b.stop_gradient = False
    first, second = recompute(two, a, 2.0, [a, b], preserve_rng_state=False, use_reentrant=False)
    (first * second).sum().backward()
    assert len(runs) == 2
    assert (a.grad.numpy().tolist(), b.grad.numpy().tolist()) == ([10.0] * 2, [2.0] * 2)
    with paddle.no_grad():
        recompute(two, a, 2.0, [a, b])
    assert len(runs) == 3
