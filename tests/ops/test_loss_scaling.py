"""Checking and unscaling gradients, and adapting the loss scale."""

from __future__ import annotations

import pytest
import torch

from refluid.core.selected_rows import SelectedRows
from refluid.ops.optimizer.loss_scaling import check_finite_and_unscale, update_loss_scaling

INF = float("inf")


def scale(value: float) -> torch.Tensor:
    return torch.tensor([value])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unscales_in_place(dtype: torch.dtype) -> None:
    first, second = torch.tensor([2.0, -4.0], dtype=dtype), torch.ones(3, 2)
    (a, b), found = check_finite_and_unscale([first, second], scale(4.0))
    assert a is first
    assert a.tolist() == [0.5, -1.0]
    assert b.eq(0.25).all()
    assert found.dtype == torch.bool
    assert found.tolist() == [False]


@pytest.mark.parametrize("bad", [INF, -INF, float("nan")])
def test_finds_what_is_not_finite(bad: float) -> None:
    rows = SelectedRows([3], 5, torch.tensor([[1.0, bad]]))
    _, found = check_finite_and_unscale([torch.ones(2), rows], scale(2.0))
    assert found.tolist() == [True]


def adapt(
    infinite: bool, value: float, good: int = 0, bad: int = 0, *, stop: bool = False
) -> tuple[list[float], float, int, int]:
    grad = torch.ones(2)
    _, factor, finite, other = update_loss_scaling(
        [grad],
        torch.tensor([infinite]),
        scale(value),
        torch.tensor([good], dtype=torch.int32),
        torch.tensor([bad], dtype=torch.int32),
        incr_every_n_steps=3,
        decr_every_n_nan_or_inf=2,
        incr_ratio=2.0,
        decr_ratio=0.5,
        stop_update=stop,
    )
    return grad.tolist(), factor.item(), int(finite.item()), int(other.item())


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ((False, 8.0, 0, 1), ([1.0, 1.0], 8.0, 1, 0)),
        ((False, 8.0, 2, 0), ([1.0, 1.0], 16.0, 0, 0)),
        ((True, 8.0, 2, 0), ([0.0, 0.0], 8.0, 0, 1)),
        ((True, 8.0, 0, 1), ([0.0, 0.0], 4.0, 0, 0)),
        ((True, 1.0, 0, 1), ([0.0, 0.0], 1.0, 0, 0)),
        ((False, 2.0e38, 2, 0), ([1.0, 1.0], pytest.approx(2.0e38), 0, 0)),
    ],
)
def test_scale_follows_the_steps(state: tuple[bool, float, int, int], expected: object) -> None:
    assert adapt(*state) == expected


def test_static_scale_only_zeroes() -> None:
    assert adapt(True, 8.0, 2, 1, stop=True) == ([0.0, 0.0], 8.0, 2, 1)
