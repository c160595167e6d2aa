"""Products by whichever kernel was chosen agree with torch's in float64."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from refluid.kernels import products
from refluid.kernels.rounded import RoundedSizes

# Rows, inner size and columns: tiny, large, narrow, a vector, and large with a small side.
SHAPES = [(3, 4, 5), (160, 120, 130), (500, 64, 10), (10, 900, 64), (2048, 512, 1), (4, 512, 600)]
LAYOUTS = ["plain", "transposed"]


@pytest.fixture(autouse=True)
def _no_size_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "sizes", RoundedSizes())


@pytest.fixture(params=[True, False], ids=["onednn", "mkl"])
def faster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(products, "onednn_speed", lambda *_: 2.0 * request.param)
    return bool(request.param)


def _matrix(rows: int, columns: int, layout: str) -> Tensor:
    generator = torch.Generator().manual_seed(rows * 1000 + columns)
    shape = (rows, columns) if layout == "plain" else (columns, rows)
    made = torch.randn(shape, generator=generator)
    return made if layout == "plain" else made.t()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
def test_product(shape: tuple[int, int, int], first: str, second: str, faster: bool) -> None:
    rows, inner, columns = shape
    a, b = _matrix(rows, inner, first), _matrix(inner, columns, second)
    out = products.product(a, b)
    assert out.is_contiguous()
    torch.testing.assert_close(out, (a.double() @ b.double()).float(), rtol=1e-5, atol=1e-4)
    if not faster:
        assert torch.equal(out, torch.mm(a, b))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("second", LAYOUTS)
def test_product_into_memory(shape: tuple[int, int, int], second: str, faster: bool) -> None:
    rows, inner, columns = shape
    a, b = _matrix(rows, inner, "plain"), _matrix(inner, columns, second)
    room = torch.full((rows + 2, columns), 7.0)
    products.product_into(room[1:-1], a, b)
    exact = (a.double() @ b.double()).float()
    torch.testing.assert_close(room[1:-1], exact, rtol=1e-5, atol=1e-4)
    assert (room[:: rows + 1] == 7.0).all()


@pytest.mark.parametrize("told", [-1, 2**18, 2**24])
def test_from_which_size_products_are_onednns(
    told: int, faster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As was measured, or as somebody says, on a processor that has both kernels."""
    monkeypatch.setattr(products, "onednn_speed", lambda *_: 2.0 if faster else 1.0)
    monkeypatch.setattr(products.limits, "told", told)
    usual = 2**20 if faster else 2**70
    generator = random.Random(told)
    for _ in range(20):
        rows, inner, columns = (generator.randint(16, 200) for _ in range(3))
        a, b = _matrix(rows, inner, "plain"), _matrix(inner, columns, "plain")
        expected = rows * inner * columns >= max(2**18, told if told >= 0 else usual)
        assert (products._kind(a, b) == "exact") is expected
        out = products.product(a, b)
        torch.testing.assert_close(out, (a.double() @ b.double()).float(), rtol=1e-5, atol=1e-4)
        monkeypatch.setattr(products, "sizes", RoundedSizes())
    monkeypatch.setattr(products, "onednn_speed", lambda *_: 0.0)  # there is no oneDNN
    assert products._kind(a, b) == ""


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("activation", ["", "relu", "tanh", "sigmoid"])
def test_affine(shape: tuple[int, int, int], activation: str, faster: bool) -> None:
    rows, inner, columns = shape
    a, b = _matrix(rows, inner, "plain"), _matrix(inner, columns, "plain")
    bias = torch.linspace(-1.0, 1.0, columns)
    wanted = torch.addmm(bias.double(), a.double(), b.double())
    wanted = getattr(torch, activation)(wanted) if activation else wanted
    out = products.affine(bias, a, b, activation)
    torch.testing.assert_close(out, wanted.float(), rtol=1e-5, atol=1e-4)


def test_autograd_sees_the_product(faster: bool) -> None:
    a = _matrix(160, 120, "plain").requires_grad_()
    b = _matrix(120, 130, "plain")
    products.product(a, b).sum().backward()
    assert a.grad is not None
    torch.testing.assert_close(a.grad, b.sum(1).expand(160, 120))


@pytest.mark.parametrize("watched", range(3))
def test_autograd_sees_an_activated_sum(watched: int, faster: bool) -> None:
    given = [torch.randn(9), torch.randn(5, 7), torch.randn(7, 9)]
    given[watched].requires_grad_()
    bias, a, b = given
    products.affine(bias, a, b, "relu").sum().backward()
    found, given[watched].grad = given[watched].grad, None
    torch.relu(torch.mm(a, b) + bias).sum().backward()
    torch.testing.assert_close(found, given[watched].grad)


def test_other_types_are_left_to_torch(faster: bool) -> None:
    a, b = _matrix(160, 120, "plain").double(), _matrix(120, 130, "plain").double()
    assert torch.equal(products.product(a, b), torch.mm(a, b))


def test_kernels_depend_on_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "onednn_speed", lambda *_: 2.0)
    kinds = [
        products._kind(_matrix(rows, inner, "plain"), _matrix(inner, columns, "plain"))
        for rows, inner, columns in SHAPES
    ]
    assert kinds == ["", "exact", "narrow", "", "", ""]


def test_narrow_results_are_transposes_whichever_kernel_is_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = _matrix(500, 64, "plain"), _matrix(64, 10, "plain")
    for speed, wanted in ((0.9, "narrow"), (2.0, "narrow"), (0.0, "")):
        monkeypatch.setattr(products, "onednn_speed", lambda *_, speed=speed: speed)
        assert products._kind(a, b) == wanted


@pytest.mark.parametrize("seed", range(40))
def test_narrow_products_at_random(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "onednn_speed", lambda *_: 0.9)
    draw = random.Random(seed)
    columns = draw.randint(2, 11)
    inner = draw.randint(32, 300)
    rows = max(13, -(-products._ENOUGH // (inner * columns)) + draw.randint(0, 200))
    a, b = (
        _matrix(*shape, draw.choice(LAYOUTS))[:: draw.choice((1, 1, 2))]
        for shape in ((rows * 2, inner), (inner * 2, columns))
    )
    b = b[:inner]
    assert products._kind(a, b) == "narrow"
    out, bias = products.product(a, b), torch.linspace(-1.0, 1.0, columns)
    exact = a.double() @ b.double()
    assert out.is_contiguous()
    torch.testing.assert_close(out, exact.float(), rtol=1e-5, atol=1e-4)
    added = products.add_product_(torch.ones_like(out), a, b)
    torch.testing.assert_close(added, (exact + 1.0).float(), rtol=1e-5, atol=1e-4)
    moved = products.affine(bias, a, b, "relu")
    torch.testing.assert_close(
        moved, torch.relu(exact + bias.double()).float(), rtol=1e-5, atol=1e-4
    )


def test_parts_of_matrices_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "onednn_speed", lambda *_: 2.0)
    a, whole = torch.rand(160, 120), torch.rand(120, 260)
    kinds = [products._kind(a, b) for b in (whole, whole[:, :130], whole.t()[:120, :120])]
    assert kinds == ["exact", "", ""]
    torch.testing.assert_close(products.product(a, whole[:, :130]), a @ whole[:, :130])


def test_where_onednn_is_slightly_faster_larger_products_are_its(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes = [(160, 120, 130), (200, 160, 140)]
    for speed, wanted in ((1.0, ["", ""]), (1.1, ["", "exact"]), (2.0, ["exact", "exact"])):
        monkeypatch.setattr(products, "onednn_speed", lambda *_, speed=speed: speed)
        pairs = [(_matrix(m, k, "plain"), _matrix(k, n, "plain")) for m, k, n in shapes]
        assert [products._kind(a, b) for a, b in pairs] == wanted


@pytest.mark.parametrize("seed", range(6))
def test_a_transposed_first_factor_is_copied_where_that_is_repaid(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By columns, by how much faster oneDNN is, by threads; somebody's word goes before."""
    draw = random.Random(seed)
    speed, threads = draw.choice([1.1, 1.5, 3.0]), draw.choice([1, 2, 8])
    monkeypatch.setattr(products, "onednn_speed", lambda *_: speed)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    enough = 45 * threads / (1 - 1 / speed)
    for columns in (max(8, int(0.9 * enough)), int(1.1 * enough) + 1):
        rows = 2**23 // (columns * 64) + 64
        b = _matrix(64, columns, "plain")
        plain, transposed = (_matrix(rows, 64, layout) for layout in LAYOUTS)
        assert products._kind(plain, b) == "exact"
        assert products._kind(transposed, b) == ("exact" if columns > enough else "")
        expected = (transposed.double() @ b.double()).float()
        torch.testing.assert_close(products.product(transposed, b), expected, rtol=1e-5, atol=1e-4)
        with monkeypatch.context() as told:
            told.setattr(products.limits, "told", 0)
            assert products._kind(transposed, b) == "exact"
