"""Products of few rows by large matrices are the products, of any sizes, where they are faster."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid import fluid
from refluid.core import flags
from refluid.kernels import products
from refluid.kernels.few_rows import loops
from refluid.kernels.few_rows.product import (
    by_rows,
    few_rows_product,
    few_rows_way,
    spanned,
    spanned_product,
    spanned_way,
)
from refluid.kernels.few_rows.writing import ROWS
from refluid.kernels.processor import vector_bits
from tests.kernels.panels import FLAG

FUNCTIONS = few_rows_product, spanned_product
pytestmark = pytest.mark.skipif(not vector_bits(), reason="loops have no vectors here")


def laid(matrix: Tensor, draws: random.Random) -> Tensor:
    """The same numbers, side by side in rows, maybe as a part of more, which are NaN."""
    if draws.random() < 0.5:
        return matrix.contiguous()
    rows, columns = matrix.shape
    wide = torch.full((rows + 3, columns + draws.randint(1, 20)), float("nan"))
    part = wide[1 : rows + 1, :columns]
    part.copy_(matrix)
    return part


class Drawn:
    """Factors of sizes drawn at random, few rows or few numbers of each, which lie in any order."""

    def __init__(self, seed: int, *, spans: bool) -> None:
        draws = random.Random(seed)
        torch.manual_seed(seed)
        few, rows = draws.randint(1, 20), draws.randint(1, 300)
        columns = draws.choice([draws.randint(1, 70), draws.randint(1, 2500)])
        sizes = (rows, few, columns) if spans else (few, rows, columns)
        self.a, self.b = torch.randn(sizes[:2]), torch.randn(sizes[1:])
        self.a = laid(self.a, draws) if draws.random() < 0.5 else laid(self.a.t(), draws).t()
        by_row = spans or draws.random() < 0.5
        self.b = laid(self.b, draws) if by_row else laid(self.b.t(), draws).t()
        self.bias = torch.randn(columns) if not spans and draws.random() < 0.5 else None

    def judge(self, found: Tensor) -> None:
        """Against float64: as near as sums of float32 in any order come."""
        a, b = self.a.double(), self.b.double()
        wanted, scale = a @ b, a.abs() @ b.abs()
        if self.bias is not None:
            wanted, scale = wanted + self.bias, scale + self.bias.abs()
        assert found.shape == wanted.shape and found.is_contiguous()
        assert bool(((found - wanted).abs() <= 1e-6 * scale).all())


@pytest.mark.usefixtures("by_threads")
@pytest.mark.parametrize("group", range(4))
def test_of_any_sizes(group: int) -> None:
    for seed in range(60 * group, 60 * (group + 1)):
        drawn = Drawn(seed, spans=False)
        drawn.judge(by_rows(drawn.a, drawn.b, drawn.bias))
        drawn = Drawn(seed, spans=True)
        drawn.judge(spanned(drawn.a, drawn.b))


def test_long_sums_keep_their_digits() -> None:
    torch.manual_seed(0)
    a, b = torch.rand(3, 40_000), torch.rand(40_000, 20)
    for right in (b, b.t().contiguous().t()):
        found, wanted = by_rows(a, right, None), a.double() @ b.double()
        torch.testing.assert_close(found.double(), wanted, rtol=2e-6, atol=0)


def test_numbers_of_whole_groups_do_not_depend_on_threads() -> None:
    """Those of what is left follow torch's products."""
    own = torch.get_num_threads()
    for seed in range(40):
        drawn, other = Drawn(seed, spans=False), Drawn(seed, spans=True)
        inner, columns = (size // ROWS * ROWS for size in drawn.b.shape)
        a, b = drawn.a[:, :inner], drawn.b[:inner, :columns]
        left = other.a[: len(other.a) // ROWS * ROWS]
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append((by_rows(a, b, None), spanned(left, other.b)))
        torch.set_num_threads(own)
        for one in found[1:]:
            assert all(map(torch.equal, found[0], one))


def test_not_finite_numbers_stay_in_their_rows_and_columns() -> None:
    a, b = torch.ones(5, 44), torch.ones(44, 50)
    a[3, 7], b[9, 11] = torch.inf, torch.nan
    for right in (b, b.t().contiguous().t()):
        torch.testing.assert_close(by_rows(a, right, None), a @ b, equal_nan=True)
    torch.testing.assert_close(spanned(b.t(), a.t().contiguous()), b.t() @ a.t(), equal_nan=True)


def test_threads_that_multiply_at_once() -> None:
    torch.manual_seed(0)
    given = [(torch.randn(7, 900), torch.randn(900, 1300)) for _ in range(4)]
    wanted = [by_rows(a, b, None) for a, b in given]
    found: dict[int, bool] = {}

    def multiply(number: int) -> None:
        a, b = given[number]
        same = (torch.equal(by_rows(a, b, None), wanted[number]) for _ in range(20))
        found[number] = all(same)

    threads = [threading.Thread(target=multiply, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert all(found[number] for number in range(4))


# -- which are ------------------------------------------------------------------------


def wide(rows: int = 3, inner: int = 1024, columns: int = 1024) -> tuple[Tensor, Tensor]:
    return torch.rand(rows, inner), torch.rand(inner, columns)


CHANGES = ["flag", "many", "small", "double", "gradients", "strides", "repeatable", "empty"]


@pytest.mark.parametrize("change", ["", *CHANGES])
def test_other_products_are_torchs(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = wide()
    if change == "many":
        a = torch.rand(products.FEW + 1, 1024)
    elif change == "small":
        a, b = wide(3, 128, 128)
    elif change == "double":
        a, b = a.double(), b.double()
    elif change == "gradients":
        b.requires_grad_()
    elif change == "strides":
        b = torch.rand(1024, 1024, 2)[..., 0]
    elif change == "empty":
        a = torch.rand(0, 1024)
    monkeypatch.setattr(products.limits, "panels", change != "flag")
    monkeypatch.setattr(products.limits, "repeatable", change == "repeatable")
    assert products._few(a, b) is (None if change else few_rows_product)


def test_which_function_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products.limits, "panels", True)
    monkeypatch.setattr(products.limits, "repeatable", False)
    a, b = wide()
    assert products._few(a, b.t()) is few_rows_product
    assert products._few(torch.rand(1024, 3), torch.rand(3, 1024)) is spanned_product
    assert products._few(torch.rand(1024, 3), torch.rand(1024, 3).t()) is None
    assert products._few(torch.rand(1024, 3), torch.rand(3, 1024), spans=False) is None


@pytest.mark.parametrize("told", [True, False])
def test_a_program_is_trained_by_them(told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded steps too, whose kernels are these; and the numbers are torch's."""
    entered: list[str] = []
    for name in ("add_products", "dot_products", "span_products"):
        loop = getattr(loops, name)

        def counted(*given: Any, name: str = name, loop: Any = loop) -> None:
            entered.append(name)
            loop(*given)

        monkeypatch.setattr(loops, name, counted)
    for way in (few_rows_way, spanned_way):
        monkeypatch.setattr(way, "told", told)
    monkeypatch.setattr(products, "MANY", 64)
    losses = []
    for asked in (True, False):
        entered.clear()
        with flags.override({FLAG: asked}):
            losses.append(_trained())
        assert bool(entered) == (told and asked)
        if entered:
            assert len(entered) >= 8 * (2 + 1 + 2)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def _trained() -> list[float]:
    layers = fluid.layers
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 30])
        hidden = layers.fc(x, 50, act="relu")
        loss = layers.mean(layers.square(layers.fc(hidden, 20, bias_attr=False)))
        fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    exe, rng = fluid.Executor(fluid.CPUPlace()), np.random.default_rng(0)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        feeds = [{"x": rng.random((5, 30), "float32")} for _ in range(8)]
        return [float(exe.run(main, feed=one, fetch_list=[loss])[0][0]) for one in feeds]


def test_groups_of_rows_are_whole() -> None:
    """What is left of a matrix's rows is multiplied by torch."""
    assert ROWS == 4
    for inner in range(1, 9):
        a, b = torch.rand(2, inner), torch.rand(inner, 40)
        torch.testing.assert_close(by_rows(a, b, None), a @ b)
        torch.testing.assert_close(by_rows(a, b.t().contiguous().t(), None), a @ b)
