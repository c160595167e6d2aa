"""LBFGS against the losses of Paddle 2.6.2, and where it ends."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from refluid import paddle
from refluid.core.errors import EnforceNotMet
from refluid.fluid import dygraph

A = np.arange(24, dtype="float64").reshape(6, 4) % 7 / 3 - 1
B = np.cos(np.arange(12)).reshape(6, 2)
# The losses that four steps of Paddle 2.6.2 return, of the mean of (A · w - B)², w = 0.5 at first.
RECORDED = [
    ({"max_iter": 3, "learning_rate": 0.5}, [1.129408118, 0.414747612, 0.149306843, 0.116179896]),
    ({"max_iter": 4, "history_size": 2}, [1.129408118, 0.126900601, 0.114334332, 0.114331819]),
    ({"line_search_fn": "strong_wolfe"}, [1.129408118, 0.114331818, 0.114331818, 0.114331818]),
]


def problem(a: Any, b: Any, **options: Any) -> tuple[Any, Any, Any]:
    """A parameter, its optimizer, and what computes the loss and its gradient."""
    w = paddle.create_parameter(
        [a.shape[1], b.shape[1]],
        str(a.dtype),
        default_initializer=paddle.nn.initializer.Constant(0.5),
    )
    optimizer = paddle.optimizer.LBFGS(parameters=[w], **options)
    x, y = paddle.to_tensor(a), paddle.to_tensor(b)

    def closure() -> Any:
        optimizer.clear_grad()
        loss = ((paddle.matmul(x, w) - y) ** 2).mean()
        loss.backward()
        return loss

    return w, optimizer, closure


@pytest.mark.parametrize(("options", "losses"), RECORDED)
def test_losses_are_paddles(options: dict[str, Any], losses: list[float]) -> None:
    with dygraph.guard():
        _, optimizer, closure = problem(A, B, **options)
        found = [float(optimizer.step(closure)) for _ in losses]
    np.testing.assert_allclose(found, losses, rtol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_it_ends_at_the_least_squares(seed: int) -> None:
    source, numbers = random.Random(seed), np.random.RandomState(seed)
    columns, targets = source.randint(1, 5), source.randint(1, 3)
    a = numbers.randn(columns + source.randint(1, 6), columns)
    b = numbers.randn(len(a), targets)
    with dygraph.guard():
        w, optimizer, closure = problem(a, b, line_search_fn="strong_wolfe", max_iter=100)
        optimizer.step(closure)
        least = np.mean((a @ np.linalg.lstsq(a, b, rcond=None)[0] - b) ** 2)
        assert np.mean((a @ w.numpy() - b) ** 2) < least * (1 + 1e-5) + 1e-9


def test_its_state_goes_on() -> None:
    with dygraph.guard():
        w, optimizer, closure = problem(A, B, max_iter=2)
        optimizer.step(closure)
        other, resumed, again = problem(A, B, max_iter=2)
        other.set_value(w.numpy())
        resumed.set_state_dict(optimizer.state_dict())
        found = [float(optimizer.step(closure)) for _ in range(3)]
        assert [float(resumed.step(again)) for _ in range(3)] == found
        with pytest.raises(EnforceNotMet, match="not LBFGS's"):
            resumed.set_state_dict({"moment": 1})


def test_what_it_needs() -> None:
    with dygraph.guard():
        _, optimizer, closure = problem(A, B)
        with pytest.raises(TypeError, match="closure"):
            optimizer.step()
        with pytest.raises(NotImplementedError, match=r"step\(closure\)"):
            optimizer.minimize(closure())
        with pytest.raises(AttributeError, match="should not be None"):
            paddle.optimizer.LBFGS()
