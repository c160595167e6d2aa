"""Functions of LLVM's vectors are those of float64, for any numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from refluid.kernels.recurrent.rows import SIGMOID, TANH, activate

FUNCTIONS: dict[int, Callable[[torch.Tensor], torch.Tensor]] = {
    SIGMOID: torch.sigmoid,
    TANH: torch.tanh,
}


def by_loop(values: Any, kind: int) -> Any:
    made = values.clone()
    activate(made, kind)
    return made


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("spread", [1e-30, 1e-4, 0.1, 0.6, 3.0, 40.0, 1e30])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 5000])
def test_any_numbers(kind: int, spread: float, count: int) -> None:
    draws = np.random.default_rng(count)
    x = torch.from_numpy(draws.normal(0.0, spread, count).astype("float32"))
    exact = FUNCTIONS[kind](x.double())
    torch.testing.assert_close(by_loop(x, kind).double(), exact, rtol=3e-7, atol=2e-38)


def test_odd_numbers() -> None:
    odd = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45, 88.0, -88.0, -103.5, 0.625]
    x = torch.tensor(odd)
    for kind, function in FUNCTIONS.items():
        found = by_loop(x, kind)
        exact = function(x.double())
        assert torch.equal(found.isnan(), exact.isnan())
        np.testing.assert_allclose(found.double(), exact, rtol=3e-7, atol=2e-38)
        assert (found.signbit() == exact.signbit())[~exact.isnan()].all()
