"""Products of a step are found, and computed the same in every way that is timed."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.suite.products import Laid, Product, Products, alone, times, ways
from refluid.kernels import onednn
from refluid.kernels.mixed_products import mixed_gradient, mixed_product
from refluid.kernels.panels.filters import filter_gradient

aten = torch.ops.aten


def _found() -> Products:
    a, b, bias = torch.rand(5, 3), torch.rand(4, 3), torch.rand(4)
    images, filters = torch.rand(2, 3, 6, 6), torch.rand(4, 3, 3, 3)
    with Products() as products:
        for _ in range(3):
            torch.mm(a, b.t())
        torch.addmm(bias, a, b.t())
        torch.bmm(a[None], b.t()[None])
        out = torch.nn.functional.conv2d(images, filters, padding=1)
        images, filters = (torch.rand(2, 16, 6, 6), torch.rand(4, 16, 3, 3))
        images, out = (one.contiguous(memory_format=torch.channels_last) for one in (images, out))
        filter_gradient(out, images, filters, ((1, 1), (1, 1), (1, 1)))
        torch.relu(a)
    return products


def test_products_are_counted_by_shape_and_order() -> None:
    found = {one.name: (one, count) for one, count in _found().found.items()}
    assert set(found) == {"mm", "addmm", "bmm", "convolution", "refluid::filter_gradient"}
    product, count = found["mm"]
    assert count == 3
    kind = torch.float32
    assert product.arguments == (Laid((5, 3), (3, 1), kind), Laid((3, 4), (1, 3), kind))


def test_all_ways_compute_the_same() -> None:
    """As many results as there are libraries and orders, for each product's own numbers."""
    for product in _found().found:
        made = [way() for way in ways(product)]
        matrices = product.name in ("mm", "addmm")
        both = product.name == "refluid::filter_gradient"
        assert len(made) == (5 + bool(onednn.linear) if matrices else 1 + both)
        if both:
            torch.testing.assert_close(made[0], made[1])
        if product.name == "mm":
            for one in made[1:]:
                assert isinstance(one, torch.Tensor) and isinstance(made[0], torch.Tensor)
                torch.testing.assert_close(one if one.shape == (5, 4) else one.t(), made[0])


def test_mixed_products_are_computed_in_one_type_by_others() -> None:
    a, b, grad = torch.rand(5, 3).bfloat16(), torch.rand(3, 4), torch.rand(5, 4).bfloat16()
    with Products() as products:
        mixed_product(a, b)
        mixed_gradient(a, grad)
    assert products.found.total() == 2
    for product, shape in zip(products.found, ((5, 4), (3, 4)), strict=True):
        made = [way() for way in ways(product)]
        assert len(made) == 5 + bool(onednn.linear and onednn.has_bfloat16())
        for one in made:
            assert isinstance(one, torch.Tensor) and one.shape in (shape, shape[::-1])


def test_what_is_given_by_name_is_given_again() -> None:
    a, b, room, bias = torch.rand(5, 3), torch.rand(3, 4), torch.zeros(5, 4), torch.rand(4)
    with Products() as products:
        torch.mm(a, b, out=room)
        torch.addmm(bias, a, b, beta=0.0)
    (into, *_), (scaled, *_) = (list[Any](ways(one)) for one in products.found)
    assert into().shape == (5, 4) and scaled().shape == (5, 4)
    given = [one.keywords for one in products.found]
    assert given == [(("out", Laid((5, 4), (4, 1), torch.float32)),), (("beta", 0.0),)]
    assert products.found.total() == 2 and alone(products.found) > 0


def test_each_counts_as_often_as_it_runs() -> None:
    kind = torch.float32
    square = Laid((64, 64), (64, 1), kind)
    product = Product(aten.mm.default, (square, square))
    once, often = alone({product: 1}), alone({product: 1000})
    assert 0 < once < often


def test_the_fastest_run_counts() -> None:
    begun = []
    (seconds, other) = times([lambda: begun.append(1), lambda: sum(range(20000))])
    assert 0 < seconds < other and len(begun) >= 5
