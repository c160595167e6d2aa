"""Products by panels are the products, of any sizes and however their factors lie."""

from __future__ import annotations

import random
import threading

import pytest
import torch
from torch import Tensor

from refluid.kernels import products
from refluid.kernels.compiled import CompiledLoop
from refluid.kernels.panels import choice, loops, product, tiles
from refluid.kernels.panels.product import laid_product, lay_panels, panel_product
from tests.kernels.panels import always_by_panels

_LOOPS = (
    *("lay_panel", "multiply_panels", "multiply_few"),  # those that others call first
    *("lay_panels", "multiply_left", "multiply_right"),
)
SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 23, 31, 32, 33, 48, 64)


class Drawn:
    """Factors and a bias of sizes and orders drawn at random; what isn't theirs is NaN."""

    def __init__(self, seed: int) -> None:
        self.draws = random.Random(seed)
        torch.manual_seed(seed)
        draw = self.draws
        rows, columns = (draw.choice([*SIZES, draw.randint(1, 200)]) for _ in range(2))
        inner = draw.choice([*SIZES, draw.randint(1, 300)])
        if seed % 16 == 0:
            inner = draw.randint(1000, 3500)
        self.a = self._laid(torch.randn(rows, inner))
        self.b = self._laid(torch.randn(inner, columns))
        self.bias = torch.randn(columns) if draw.random() < 0.5 else None

    def _laid(self, matrix: Tensor) -> Tensor:
        if self.draws.random() < 0.5:
            return self._laid_by_rows(matrix)
        return self._laid_by_rows(matrix.t()).t()

    def _laid_by_rows(self, matrix: Tensor) -> Tensor:
        before, behind = (self.draws.choice([0, 0, 1, 3, 9]) for _ in range(2))
        rows, columns = matrix.shape
        whole = torch.full((rows + before, before + columns + behind), torch.nan)
        part = whole[before:, before : before + columns]
        return part.copy_(matrix)

    def judge(self, found: Tensor) -> None:
        a, b = self.a.double(), self.b.double()
        wanted, scale = a @ b, a.abs() @ b.abs()
        if self.bias is not None:
            wanted, scale = wanted + self.bias, scale + self.bias.abs()
        assert found.shape == wanted.shape
        assert found.is_contiguous()
        assert bool(((found - wanted).abs() <= 1e-6 * scale).all())


@pytest.mark.usefixtures("by_threads")
@pytest.mark.parametrize("group", range(8))
def test_of_any_sizes(group: int) -> None:
    for seed in range(48 * group, 48 * (group + 1)):
        drawn = Drawn(seed)
        drawn.judge(panel_product(drawn.a, drawn.b, drawn.bias))
        drawn.judge(laid_product(drawn.a, drawn.b, lay_panels(drawn.b), drawn.bias))


def test_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rows, and of the numbers of each line."""
    monkeypatch.setattr(product, "_LEFT", 500)
    monkeypatch.setattr(product, "_DEPTH", 30)
    for seed in range(100):
        drawn = Drawn(seed)
        drawn.judge(panel_product(drawn.a, drawn.b, drawn.bias))
        drawn.judge(laid_product(drawn.a, drawn.b, lay_panels(drawn.b), drawn.bias))


@pytest.mark.slow
def test_tiles_of_the_other_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that this processor has no registers for are right, too, if slow."""
    own = tiles.tile_sizes()
    sizes = tiles.TileSizes(1, 6, (5, 4)), tiles.TileSizes(2, 12, (10, 8))
    other = sizes[own.vectors == 1]
    for module in (tiles, product):
        monkeypatch.setattr(module, "tile_sizes", lambda: other)
    # Compiled anew for them, and kept nowhere.
    for name in _LOOPS:
        fresh = CompiledLoop(getattr(loops, name).function)
        monkeypatch.setattr(loops, name, fresh._dispatcher())
    product._low.cache_clear()
    try:
        for seed in range(200):
            drawn = Drawn(seed)
            drawn.judge(panel_product(drawn.a, drawn.b, drawn.bias))
            drawn.judge(laid_product(drawn.a, drawn.b, lay_panels(drawn.b), drawn.bias))
    finally:
        product._low.cache_clear()


def test_not_finite_numbers_stay_in_their_rows_and_columns() -> None:
    a, b = torch.ones(20, 40), torch.ones(40, 50)
    a[3, 7], b[9, 11] = torch.inf, torch.nan
    for found in (panel_product(a, b), laid_product(a, b, lay_panels(b))):
        torch.testing.assert_close(found, a @ b, equal_nan=True)


def test_a_row_is_the_same_whatever_comes_with_it() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(70, 1300), torch.randn(1300, 90)
    whole, panels = panel_product(a, b), lay_panels(b)
    for rows in (1, 5, 6, 33):
        assert torch.equal(panel_product(a[:rows], b), whole[:rows])
        assert torch.equal(laid_product(a[:rows], b, panels), whole[:rows])


def test_threads_that_multiply_at_once() -> None:
    torch.manual_seed(0)
    given = [(torch.randn(40, 700), torch.randn(700, 300)) for _ in range(4)]
    wanted = [panel_product(a, b) for a, b in given]
    found: dict[int, bool] = {}

    def multiply(number: int) -> None:
        a, b = given[number]
        same = (torch.equal(panel_product(a, b), wanted[number]) for _ in range(20))
        found[number] = all(same)

    threads = [threading.Thread(target=multiply, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == dict.fromkeys(range(4), True)


def test_products_are_by_panels_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = always_by_panels(monkeypatch)
    torch.manual_seed(0)
    a, b, bias = torch.randn(30, 20), torch.randn(20, 40), torch.randn(40)
    near = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(products.product(a, b), a @ b, **near)
    found = products.affine(bias, a, b, "tanh")
    torch.testing.assert_close(found, torch.tanh(a @ b + bias), **near)
    out = torch.ones(30, 40)
    products.add_product_(out, a, b)
    torch.testing.assert_close(out, 1 + a @ b, **near)
    products.product_into(out, a, b)
    torch.testing.assert_close(out, a @ b, **near)
    assert entered == {"multiply_left": 4}
    into = products.repeated(b, 30, 2)
    for rows in (30, 7):
        into(out[:rows], a[:rows])
        torch.testing.assert_close(out[:rows], a[:rows] @ b, **near)
    assert entered == {"multiply_left": 4, "multiply_right": 2}


@pytest.mark.parametrize("seed", range(8))
def test_parts_of_a_transposed_factor_share_what_was_laid(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, draws = always_by_panels(monkeypatch), random.Random(seed)
    inner, rows, columns = (draws.randint(2, 60) for _ in range(3))
    size = draws.randint(1, rows)
    parts = [slice(begin, begin + size) for begin in range(0, rows, size)]
    x, b = torch.randn(inner, rows), torch.randn(columns, inner).t()
    if draws.random() < 0.5:
        b = b.contiguous()
    multiply = products.of_parts(b, size, len(parts))
    shares = len(parts) > 1
    assert entered == {}
    for part in parts:
        found, wanted = multiply(x[:, part].t()), x[:, part].t() @ b
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-4)
    assert entered["multiply_right"] == len(parts) * shares
    monkeypatch.setattr(products, "FEW", 60)  # those have other loops
    products.of_parts(b, size, len(parts))(x[:, parts[0]].t())
    monkeypatch.setattr(products.limits, "panels", False)
    products.of_parts(b, size, len(parts))(x[:, parts[0]].t())
    assert entered["multiply_right"] == len(parts) * shares


def test_how_factors_lie_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    always_by_panels(monkeypatch)
    monkeypatch.setattr(choice, "pays_shared", lambda *given: asked.append(given))
    b = torch.randn(30, 20)
    for right in (b, b.t().contiguous().t()):
        products.of_parts(right, 7, 3)
        products.repeated(right, 7, 3)
    sizes = 7, 30, 20, 3
    assert asked == [(*sizes, left, right) for right in (0, 1) for left in (1, 0)]


@pytest.mark.parametrize("change", ["flag", "double", "gradient", "strides", "watched"])
def test_other_products_are_torchs(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = always_by_panels(monkeypatch)
    a, b = torch.randn(30, 20), torch.randn(20, 40)
    if change == "flag":
        monkeypatch.setattr(products.limits, "panels", False)
    elif change == "double":
        a, b = a.double(), b.double()
    elif change == "gradient":
        b.requires_grad_()
    elif change == "strides":
        a = torch.randn(30, 40)[:, ::2]
    else:
        monkeypatch.setattr(products, "is_watched", lambda: True)
    torch.testing.assert_close(products.product(a, b), a @ b)
    assert not entered
