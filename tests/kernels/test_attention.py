"""Attention by torch's kernel is product, softmax and product: any sizes, orders and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.kernels import attention as module
from refluid.kernels.attention import attention, gradients

_CLOSE: dict[torch.dtype, dict[str, float]] = {
    torch.float32: {"rtol": 2e-5, "atol": 2e-5},
    torch.float64: {"rtol": 1e-12, "atol": 1e-12},
}


def _laid(draws: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Numbers of that shape, whose dimensions lie in memory in some order or with gaps."""
    order = draws.permutation(len(shape)) if draws.random() < 0.4 else np.array([0, 2, 1, 3])
    wide = [shape[place] for place in order]
    gap = int(draws.integers(0, 3))
    wide[-1] += gap
    whole = torch.from_numpy(draws.standard_normal(wide)).to(dtype)
    back = np.argsort(order).tolist()
    return whole[..., : wide[-1] - gap].permute(back)


def _masked(draws: np.random.Generator, scores: tuple[int, ...]) -> Tensor | None:
    """None, or a mask that spreads to the scores; some of its numbers leave a key out, not all."""
    if draws.random() < 0.3:
        return None
    shape = [size if draws.random() < 0.5 else 1 for size in scores][draws.integers(0, 3) :]
    mask = draws.standard_normal(shape)
    out = draws.random(shape) < 0.2
    out[..., :1] = False  # where all are left out, what is left of scores is rounding
    mask[out] = draws.choice([-1e9, -1e4, -100.0])
    return torch.from_numpy(mask)


def _expected(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, grad: Tensor
) -> list[Tensor]:
    q, k, v = (one.detach().double().requires_grad_() for one in (q, k, v))
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    weights = torch.softmax(scores if mask is None else scores + mask.double(), -1)
    out = torch.matmul(weights, v)
    return [out.detach(), *torch.autograd.grad(out, (q, k, v), grad.double())]


def _compared(draws: np.random.Generator, dtype: torch.dtype, **more: Any) -> Tensor:
    """What was kept for the gradients, once all results were compared."""
    batch, heads, length, size = (int(n) for n in draws.integers(1, 9, size=4))
    top = 80 if draws.random() < 0.3 else 9
    length, keys = int(draws.integers(1, top)), more.get("keys", int(draws.integers(2, top)))
    size = more.get("size", size)
    q = _laid(draws, (batch, heads, length, size), dtype)
    k, v = (_laid(draws, (more.get("batch", batch), heads, keys, size), dtype) for _ in range(2))
    mask = _masked(draws, (batch, heads, length, keys))
    mask = mask if mask is None else mask.to(dtype)
    scale = float(draws.choice([1.0, size**-0.5 if size else 1.0, -0.7]))
    out, kept = attention(q, k, v, mask, scale)
    grad = _laid(draws, tuple(out.shape), dtype)
    need = [bool(one) for one in draws.random(3) < 0.7]
    found = [out, *gradients(q, k, v, mask, out, kept, grad, scale, need)]
    for one, known, asked in zip(
        found, _expected(q, k, v, mask, scale, grad), [True, *need], strict=True
    ):
        assert (one is not None) == asked
        if one is not None:
            torch.testing.assert_close(one, known.to(dtype), **_CLOSE[dtype])
    return kept


@pytest.mark.parametrize("dtype", _CLOSE)
@pytest.mark.parametrize("seed", range(4))
def test_any_sizes(seed: int, dtype: torch.dtype) -> None:
    draws = np.random.default_rng(seed)
    for _ in range(40):
        assert _compared(draws, dtype).dim() == 3


@pytest.mark.parametrize("more", [{"batch": 1}, {"size": 0}, {"keys": 1}])
def test_what_it_is_not_made_for(more: dict[str, int]) -> None:
    """Keys that all of a batch share, vectors without numbers, and a single key."""
    draws = np.random.default_rng(7)
    kept = [_compared(draws, torch.float64, **more) for _ in range(20)]
    assert any(one.dim() == 4 for one in kept)


def test_where_torch_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_attention", None)
    draws = np.random.default_rng(8)
    for _ in range(20):
        assert _compared(draws, torch.float64).dim() == 4


def test_a_mask_that_makes_more_of_the_scores() -> None:
    draws = np.random.default_rng(9)
    q, k, v = (_laid(draws, (1, 2, 3, 4), torch.float64) for _ in range(3))
    mask = torch.from_numpy(draws.standard_normal((5, 1, 3, 3)))
    grad = torch.from_numpy(draws.standard_normal((5, 2, 3, 4)))
    out, kept = attention(q, k, v, mask, 0.5)
    found = [out, *gradients(q, k, v, mask, out, kept, grad, 0.5, (True, True, True))]
    for one, known in zip(found, _expected(q, k, v, mask, 0.5, grad), strict=True):
        torch.testing.assert_close(one, known)


def test_rows_that_see_nothing_are_zero() -> None:
    q = torch.ones(1, 1, 2, 3)
    mask = torch.tensor([[0.0, 0.0], [-torch.inf, -torch.inf]])
    out, kept = attention(q, q, q, mask, 1.0)
    assert torch.equal(out[0, 0], torch.tensor([[1.0] * 3, [0.0] * 3]))
    found = gradients(q, q, q, mask, out, kept, q, 1.0, (True, True, True))
    assert all(one is not None and bool(one.isfinite().all()) for one in found)


def test_a_single_key_gives_its_scores_no_gradient() -> None:
    draws = np.random.default_rng(3)
    q, k, v = (_laid(draws, (2, 3, n, 4), torch.float32) for n in (5, 1, 1))
    out, kept = attention(q, k, v, None, 0.5)
    d_q, d_k, _ = gradients(q, k, v, None, out, kept, q, 0.5, (True, True, True))
    assert d_q is not None and d_k is not None and not d_q.any() and not d_k.any()


@pytest.mark.parametrize(
    ("shape", "length", "alone", "dims"),
    [
        ((2, 2), 80, False, 3),
        ((2, 2), 90, False, 4),
        ((2, 2), 90, True, 3),
        ((10, 9), 90, False, 3),  # many in all
    ],
)
def test_weights_are_kept_where_that_is_quicker(
    shape: tuple[int, int], length: int, alone: bool, dims: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MANY", 90 * 90 * 90)
    q = torch.randn(*shape, length, 4)
    out, kept = attention(q, q, q, None, 0.5, alone=alone)
    assert kept.dim() == dims
    found = [out, *gradients(q, q, q, None, out, kept, q, 0.5, (True, True, True))]
    for one, known in zip(found, _expected(q, q, q, None, 0.5, q), strict=True):
        torch.testing.assert_close(one, known.float(), **_CLOSE[torch.float32])
