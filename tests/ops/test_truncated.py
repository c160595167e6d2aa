"""Normal numbers within two standard deviations."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from refluid.ops.tensor import random as module
from tests.ops.test_region_pooling import body


class _Drawn(TorchDispatchMode):
    """Counts the numbers that are drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.normal_.default:
            self.count += args[0].numel()
        return func(*args, **(kwargs or {}))


def _truncated(shape: list[int], mean: float, std: float) -> torch.Tensor:
    return body("truncated_gaussian_random")(
        shape=shape,
        mean=mean,
        std=std,
        device=torch.device("cpu"),
        random=lambda seed: torch.Generator().manual_seed(3),
    )


def test_moments_are_those_of_the_truncated_distribution() -> None:
    found = _truncated([400, 500], 1.0, 0.5)
    assert found.shape == (400, 500) and found.dtype == torch.float32
    assert 0.0 <= float(found.min()) < 0.01 and 1.99 < float(found.max()) <= 2.0
    inside = math.erf(2 / math.sqrt(2))
    density = math.exp(-2) / math.sqrt(2 * math.pi)
    assert abs(float(found.mean()) - 1) < 0.003
    assert abs(float(found.std()) - 0.5 * math.sqrt(1 - 4 * density / inside)) < 0.003


def test_only_numbers_beyond_are_drawn_again() -> None:
    with _Drawn() as drawn:
        _truncated([100000], 0.0, 1.0)
    assert 104_000 < drawn.count < 106_000


def test_every_part_of_a_large_parameter_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PART", 7)
    found = _truncated([20, 5], 0.0, 1.0)
    assert found.abs().max() <= 2
    plain = torch.empty(20, 5).normal_(generator=torch.Generator().manual_seed(3))
    assert (plain.abs() > 2).any()
    assert torch.equal(found[plain.abs() <= 2], plain[plain.abs() <= 2])


def test_no_spread_is_the_mean() -> None:
    assert torch.equal(_truncated([3], 2.0, 0.0), torch.full((3,), 2.0))
