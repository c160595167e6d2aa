"""Softmax in one pass is torch's, for any rows, numbers and number of threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from refluid.core import flags
from refluid.kernels import epilogues as module
from refluid.kernels.epilogues import softmax_with_top, softmax_with_top_

FLAG = "FLAGS_refluid_softmax_loop"


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small ones by the loop, too; as many threads afterwards as before."""
    monkeypatch.setattr(module, "_ENOUGH", 1)
    monkeypatch.setattr(module, "_WIDE", 1)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def both(x: torch.Tensor, axis: int = -1) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """By the loop, and by torch."""
    assert module.softmax_is_by_loop(x, axis)
    ours = softmax_with_top(x, axis)
    with flags.override({FLAG: False}):
        assert not module.softmax_is_by_loop(x, axis)
        return [*ours], [*softmax_with_top(x, axis)]


@pytest.mark.parametrize("seed", range(12))
def test_any_rows(seed: int) -> None:
    draws = np.random.default_rng(seed)
    torch.set_num_threads(int(draws.integers(1, 5)))
    for _ in range(20):
        width = int(draws.integers(1, draws.choice([4, 20, 200, 5000])))
        shape = *draws.integers(1, 9, size=draws.integers(0, 3)), width
        spread = draws.choice([0.01, 1.0, 30.0, 1e4])
        x = torch.from_numpy(draws.normal(draws.normal(), spread, shape).astype("float32"))
        axis = int(draws.choice([-1, x.dim() - 1]))
        (softmax, top, rest), (known, its_top, its_rest) = both(x, axis)
        exact = torch.softmax(x.double(), axis)
        torch.testing.assert_close(softmax.double(), exact, rtol=3e-6 + 1e-7 * spread, atol=1e-38)
        torch.testing.assert_close(softmax, known, rtol=3e-6, atol=1e-38)
        assert torch.equal(top, its_top)
        torch.testing.assert_close(rest, its_rest, rtol=2e-6, atol=2e-6)
        for one, over in zip((top, rest, softmax), (*softmax_with_top_(x), x), strict=True):
            assert torch.equal(one, over)


def test_subnormal_results() -> None:
    x = torch.tensor([[0.0, -87.0, -88.0, -95.0, -103.0, -103.9, -104.5, -1e5, float("-inf")]])
    (softmax, _, _), _ = both(x)
    exact = torch.softmax(x.double(), -1)
    np.testing.assert_allclose(softmax.double(), exact, rtol=1e-6, atol=1e-45)


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", [0, 15, 16, 39])
def test_what_is_no_number_spreads_over_its_row(odd: float, place: int) -> None:
    x = torch.randn(3, 40)
    x[1, place] = odd
    (softmax, top, rest), _ = both(x)
    assert softmax[1].isnan().all()
    assert (top - rest)[1].isnan().all()
    assert torch.equal(softmax[::2], both(x[::2].contiguous())[0][0])


def test_a_row_without_anything_finite() -> None:
    (softmax, _, _), (known, _, _) = both(torch.full((2, 20), float("-inf")))
    assert softmax.isnan().all()
    assert known.isnan().all()


def test_what_is_left_to_torch() -> None:
    x = torch.randn(6, 8)
    assert not module.softmax_is_by_loop(x, 0)
    assert not module.softmax_is_by_loop(x.double(), -1)
    assert not module.softmax_is_by_loop(x.t(), -1)
    assert not module.softmax_is_by_loop(x.requires_grad_(), -1)
    with torch.no_grad():
        assert module.softmax_is_by_loop(x, -1)
