"""Products of many sizes: few shapes reach oneDNN, and the numbers are those of each size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.core import flags
from refluid.kernels import products, rounded
from refluid.runtime.kernels import asked_for

RANDOM = np.random.RandomState(3)
needs_onednn = pytest.mark.skipif(products.linear is None, reason="this torch has no oneDNN")
pytestmark = needs_onednn


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """The shapes that reach oneDNN, of (m, k) by (k, n)."""
    seen = []
    whole = products.linear
    assert whole is not None

    def linear(a: Tensor, b: Tensor, *rest: object) -> Tensor:
        seen.append((*a.shape, len(b)))
        return whole(a, b, *rest)

    monkeypatch.setattr(products, "linear", linear)
    monkeypatch.setattr(products, "onednn_speed", lambda *_: 2.0)
    monkeypatch.setattr(products, "sizes", rounded.RoundedSizes())
    return seen


def _matrix(rows: int, columns: int) -> Tensor:
    """Row by row, or column by column."""
    made = torch.from_numpy(RANDOM.randn(rows, columns).astype("float32"))
    return made if RANDOM.rand() < 0.5 else made.t().contiguous().t()


def _check(a: Tensor, b: Tensor, bias: Tensor, activation: str) -> None:
    exact = a.double() @ b.double()
    bound = {"rtol": 1e-5, "atol": 2e-5 * a.shape[1] ** 0.5}
    torch.testing.assert_close(products.product(a, b), exact.float(), **bound)
    exact += bias.double()
    wanted = getattr(torch, activation)(exact) if activation else exact
    torch.testing.assert_close(products.affine(bias, a, b, activation), wanted.float(), **bound)
    out = torch.ones_like(exact, dtype=torch.float32)
    products.add_product_(out, a, b)
    torch.testing.assert_close(out, (1 + a.double() @ b.double()).float(), **bound)


@pytest.mark.parametrize(
    "width",
    [(64, 600), *(pytest.param(one, marks=pytest.mark.slow) for one in ((600, 64), (256, 256)))],
)
@pytest.mark.parametrize("varied", ["rows", "inner"])
def test_many_sizes_with_few_shapes(
    varied: str, width: tuple[int, int], shapes: list[tuple[int, int, int]]
) -> None:
    for _ in range(60):
        size = int(RANDOM.randint(8, 2 ** RANDOM.randint(4, 12)))
        m, k, n = (size, *width) if varied == "rows" else (width[0], size, width[1])
        bias = torch.from_numpy(RANDOM.randn(n).astype("float32"))
        activation = ["", "relu", "tanh", "sigmoid"][RANDOM.randint(4)]
        _check(_matrix(m, k), _matrix(k, n), bias, activation)
    place = 0 if varied == "rows" else 1
    used = {shape[place] for shape in shapes}
    assert len({shape[:place] + shape[place + 1 :] for shape in shapes}) == 1
    # Those that came first, and eight between two powers of two.
    assert len(used) <= rounded.EXACT + 9 * 8
    assert sum(size % 8 != 0 for size in used) <= rounded.EXACT


def test_a_shape_gives_the_same_bits_again(shapes: list[tuple[int, int, int]]) -> None:
    pairs = [(_matrix(rows, 256), _matrix(256, 300)) for rows in range(100, 120)]
    first = [products.product(a, b) for a, b in pairs]
    for place in RANDOM.permutation(len(pairs)):
        assert torch.equal(products.product(*pairs[place]), first[place])


def test_rows_are_of_no_other_rows(shapes: list[tuple[int, int, int]]) -> None:
    """What fills a size up takes no part in results, even if it is infinite."""
    b = _matrix(256, 300)
    for rows in range(100, 120):
        a = _matrix(rows, 256)
        a[-1] = torch.inf
        out = products.product(a, b)
        assert out.shape == (rows, 300)
        assert torch.isfinite(out[:-1]).all()
        assert not torch.isfinite(out[-1]).any()


def test_too_many_shapes_are_left_to_torch(shapes: list[tuple[int, int, int]]) -> None:
    for width in range(100, 100 + rounded.MOST + 40):
        products.product(torch.ones(width, 110), torch.ones(110, width))
    assert len(set(shapes)) == rounded.MOST
    a, b = _matrix(90, 130), _matrix(130, 100)
    assert torch.equal(products.product(a, b), torch.mm(a, b))


@pytest.fixture
def not_rounded() -> Iterator[None]:
    with flags.override({"FLAGS_refluid_rounded_products": False}):
        asked_for()
        yield
    asked_for()


def test_the_flag_switches_it_off(not_rounded: None, shapes: list[tuple[int, int, int]]) -> None:
    assert not rounded.sizes.active
    products.sizes.active = False
    for rows in range(100, 120):
        products.product(_matrix(rows, 256), _matrix(256, 300))
    assert {rows for rows, *_ in shapes} == set(range(100, 120))
