"""What TorchInductor is given of kernels that do several things at once."""

from __future__ import annotations

import operator
from functools import partial
from random import Random

import pytest
import torch
from torch.fx import Graph, GraphModule
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("count", [1, 3])
def test_what_gives_a_list_is_called_by_python(count: int) -> None:
    """By C++ a list of one ends the process. Enough else is computed for C++ to be chosen."""
    graph = Graph()
    values = [graph.placeholder(f"x{n}") for n in range(count)]
    for _ in range(inductor._MANY):
        values = [graph.call_function(torch.ops.aten.add.Tensor, (one, 1.0)) for one in values]
    norms = graph.call_function(torch.ops.aten._foreach_norm.Scalar, (values, 2))
    graph.output(tuple(graph.call_function(operator.getitem, (norms, n)) for n in range(count)))
    module = GraphModule(torch.nn.Module(), graph)
    assert inductor._gives_list(norms.target)
    given = [*torch.randn(count, 3, 4)]
    for ours, its in zip(
        inductor.compile_graph(module, given)(*given), module(*given), strict=True
    ):
        torch.testing.assert_close(ours, its)


def test_views_and_what_has_loops_of_its_own_is_called_by_cpp() -> None:
    aten = torch.ops.aten
    for target in (aten.split.Tensor, aten.unbind.int, aten._foreach_add.List, aten.add.Tensor):
        assert not inductor._gives_list(target)
    assert not inductor._gives_list("output")
