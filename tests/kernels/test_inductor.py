"""What TorchInductor is given of kernels that do several things at once."""

from __future__ import annotations

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
