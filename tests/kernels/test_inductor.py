"""What TorchInductor is given of kernels that do several things at once."""

from __future__ import annotations

from functools import partial
from random import Random

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from refluid.kernels import inductor
from refluid.kernels.epilogues import add_relu


def test_an_activated_sum_is_taken_apart_to_the_same_bits() -> None:
    x, y = torch.randn(2, 50, 7).unbind(0)
    x[0, :4] = torch.tensor([float("nan"), float("inf"), -0.0, 0.0])
    y[0, 2:4] = 0.0

    def plain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return add_relu(x, y)

    def over(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return add_relu(x, y, out=x.clone())

    for function in (plain, over):
        table = inductor._apart()
        graph = make_fx(torch.func.functionalize(function), table)(x, y)
        assert "_add_relu" not in graph.code
        assert torch.equal(graph(x, y).nan_to_num(7.0), function(x, y).nan_to_num(7.0))


def _special(*shape: int) -> torch.Tensor:
    made = torch.randn(shape)
    made.view(-1)[:4] = torch.tensor([float("nan"), float("inf"), -0.0, 0.0])
    return made


def test_a_bias_comes_after_the_product_to_the_bits_of_a_sum() -> None:
    def activated(bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = torch.mm(a, b)
        return add_relu(out, bias, out)

    random = Random(3)
    for _ in range(12):
        rows, inner, columns = random.randint(1, 70), random.randint(1, 90), random.randint(4, 90)
        bias, a, b = _special(columns), torch.randn(rows, inner), torch.randn(inner, columns)
        wanted = torch.mm(a, b) + bias
        for layer, expected in ((torch.addmm, wanted), (activated, torch.relu(wanted))):
            graph = make_fx(torch.func.functionalize(layer), inductor._apart())(bias, a, b)
            assert "addmm" not in graph.code and "aten.add" not in graph.code
            assert torch.equal(graph(bias, a, b).nan_to_num(7.0), expected.nan_to_num(7.0))


def test_other_sums_with_products_stay_one_call() -> None:
    def graph(bias: torch.Tensor, kind: torch.dtype = torch.float32, beta: float = 1) -> str:
        given = bias.to(kind), torch.randn(5, 7).to(kind), torch.randn(7, 9).to(kind)
        layer = partial(torch.addmm, beta=beta)
        return make_fx(lambda *all_of_them: layer(*all_of_them), inductor._apart())(*given).code

    assert "addmm" in graph(torch.randn(9), torch.bfloat16)  # would be rounded twice
    assert "addmm" in graph(torch.randn(9), beta=0.5)
    assert "addmm" in graph(torch.randn(5, 9))
    assert "addmm" not in graph(torch.randn(9))
