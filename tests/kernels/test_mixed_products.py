"""Products of half-precision rows by float32 matrices, of any sizes and as they lie."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from refluid.kernels import mixed_products
from refluid.kernels.mixed_products import has_infinite, mixed_gradient, mixed_product
from refluid.kernels.products import limits

# Half the distance of neighbours in bfloat16, relative to them.
_ROUNDING = 2.0**-8


class Drawn:
    """Rows, a matrix that may be the transpose of what lies by rows, a bias or none."""

    def __init__(self, seed: int) -> None:
        draws = random.Random(seed)
        torch.manual_seed(seed)
        rows, inner, columns = (draws.randint(1, most) for most in (40, 90, 300))
        self.a = self.laid(torch.randn(rows, inner).bfloat16(), draws)
        self.b = self.laid(torch.randn(inner, columns), draws)
        self.grad = self.laid(torch.randn(rows, columns).bfloat16(), draws)
        self.bias = torch.randn(columns).bfloat16() if draws.random() < 0.5 else None

    @staticmethod
    def laid(matrix: Tensor, draws: random.Random) -> Tensor:
        return matrix.t().contiguous().t() if draws.random() < 0.4 else matrix

    def judge(self, half_weights: bool) -> None:
        """Against float64: b may have been rounded, and what is half is rounded once more."""
        a, b, grad = self.a.double(), self.b.double(), self.grad.double()
        bias = 0 if self.bias is None else self.bias.double()
        out = mixed_product(self.a, self.b, self.bias)
        assert out.dtype is torch.bfloat16
        scale = a.abs() @ b.abs() * (_ROUNDING if half_weights else 1e-6)
        _near(out, a @ b + bias, scale + 1e-6 * abs(bias))
        slopes = mixed_gradient(self.a, self.grad)
        assert slopes.dtype is torch.float32
        scale = a.abs().t() @ grad.abs() * 1e-6
        if half_weights:
            _near(slopes, a.t() @ grad, scale)
        else:
            assert bool(((slopes - a.t() @ grad).abs() <= scale).all())


def _near(found: Tensor, wanted: Tensor, scale: Tensor) -> None:
    assert found.shape == wanted.shape
    assert bool(((found - wanted).abs() <= scale + 1.01 * _ROUNDING * wanted.abs()).all())


@pytest.fixture(params=[True, False], ids=["multiplies halves", "doesn't"])
def halves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the processor is taken to multiply bfloat16 faster than float32."""
    monkeypatch.setattr(mixed_products, "bfloat16_multiplies_faster", lambda: request.param)
    return bool(request.param)


@pytest.mark.parametrize("few", [0, 20, 40])
def test_of_any_sizes(few: int, halves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_products, "_FEW", few)
    draws = random.Random(few)
    for seed in range(60):
        monkeypatch.setattr(mixed_products, "_LEAST", draws.randint(1, 40))
        monkeypatch.setattr(mixed_products, "_TILE", draws.randint(1, 9000))
        monkeypatch.setattr(mixed_products, "_GRADIENT", draws.randint(1, 9000))
        drawn = Drawn(seed)
        drawn.judge(halves and len(drawn.a) > few)


@pytest.mark.parametrize("surely", [0.0, 1e38])
@pytest.mark.parametrize("few", [0, 40])
def test_what_is_infinite_is_found(
    few: int, surely: float, halves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of factors, some of which are, or whose products or sums of these are too great."""
    monkeypatch.setattr(mixed_products, "_FEW", few)
    monkeypatch.setattr(mixed_products, "_SURELY", surely)
    draws = random.Random(few)
    odd = [0.0, 1e19, 2e19, 3e38, float("inf"), float("nan"), -float("inf")]
    seen = set[bool]()
    for seed in range(80):
        monkeypatch.setattr(mixed_products, "_TILE", draws.randint(1, 9000))
        drawn = Drawn(seed)
        for one in (drawn.a, drawn.grad):
            one[draws.randrange(len(one)), draws.randrange(one.shape[1])] = draws.choice(odd)
        wanted = not bool((drawn.a.double().t() @ drawn.grad.double()).float().isfinite().all())
        found = has_infinite(drawn.a, drawn.grad)
        assert (found.dtype, found.shape, found.item()) == (torch.bool, (1,), wanted)
        seen.add(wanted)
    assert seen == {True, False}


def test_sums_of_many_are_too_great(halves: bool) -> None:
    a, grad = torch.full((40, 3), 1e19).bfloat16(), torch.full((40, 5), 1e18).bfloat16()
    assert has_infinite(a, grad) and not has_infinite(a[:20], grad[:20])


@pytest.mark.parametrize("panels", [True, False])
def test_float16_overflows_where_it_is_multiplied(
    panels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "panels", panels)
    a, grad = torch.full((2, 3), 200.0).half(), torch.full((2, 5), 200.0).half()
    slopes = mixed_gradient(a, grad)
    assert bool(slopes.isfinite().all()) is panels
    assert has_infinite(a, grad).item() is not panels


def test_rows_that_are_none(halves: bool) -> None:
    a, b, grad = torch.ones(0, 3).bfloat16(), torch.ones(3, 5), torch.ones(0, 5).bfloat16()
    assert mixed_product(a, b).shape == (0, 5)
    assert torch.equal(mixed_gradient(a, grad), torch.zeros(3, 5))
    assert not has_infinite(a, grad)


def test_a_flag_leaves_them_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_given: object) -> bool:
        raise AssertionError

    drawn = Drawn(1)
    monkeypatch.setattr(limits, "panels", False)
    monkeypatch.setattr(mixed_products, "_in_float32", never)
    out = mixed_product(drawn.a, drawn.b)
    assert torch.equal(out, torch.mm(drawn.a, drawn.b.bfloat16()))
    slopes = mixed_gradient(drawn.a, drawn.grad)
    assert torch.equal(slopes, torch.mm(drawn.a.t(), drawn.grad).float())


def test_where_runs_are_to_be_equal_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_products, "bfloat16_multiplies_faster", lambda: 1 / 0)
    monkeypatch.setattr(limits, "repeatable", True)
    monkeypatch.setattr(mixed_products, "_FEW", 0)
    drawn = Drawn(3)
    drawn.judge(half_weights=True)


@pytest.mark.parametrize("device", ["meta"])
def test_shapes_elsewhere(device: str) -> None:
    def there(one: Tensor) -> Tensor:
        return one.to(device)

    drawn = Drawn(2)
    make: Callable[[Tensor, Tensor], Tensor] = mixed_product
    found = make(there(drawn.a), there(drawn.b))
    assert (found.shape, found.dtype) == (drawn.grad.shape, torch.bfloat16)
    slopes = mixed_gradient(there(drawn.a), there(drawn.grad))
    assert (slopes.shape, slopes.dtype) == (drawn.b.shape, torch.float32)
    assert has_infinite(there(drawn.a), there(drawn.grad)).shape == (1,)
