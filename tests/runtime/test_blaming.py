"""Compiled code that fails is traced to the operator whose kernel does."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.fx import Graph, GraphModule

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.runtime.messages import KernelFailed
from refluid.runtime.recorded import trial
from refluid.runtime.recorded.blaming import blaming

aten: Any = torch.ops.aten


def _graph() -> GraphModule:
    """Halves x, picks rows of it, and gives the largest of each, a pair; and x, halved."""
    graph = Graph()
    x, rows = graph.placeholder("x"), graph.placeholder("rows")
    half = graph.call_function(aten.mul_.Scalar, (x, 0.5))
    picked = graph.call_function(aten.index_select.default, (half, 0, rows))
    largest = graph.call_function(aten.max.dim, (picked, 1))
    first = graph.call_function(operator.getitem, (largest, 0))
    pair = graph.call_function(aten.view.default, (first, (2,)))
    graph.output((pair, half))
    return GraphModule(torch.nn.Module(), graph)


def _failing(*_: Tensor) -> Any:
    raise RuntimeError("cpp_fused_7: out of bounds")


def _ops() -> list[Any]:
    """Four operators of a program."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        found = fluid.data("x", [2])
        for layer in (fluid.layers.relu, fluid.layers.tanh, fluid.layers.exp, fluid.layers.sqrt):
            found = layer(found)
    return list(main.global_block().ops)


@pytest.mark.parametrize(
    ("x", "rows", "place"),
    [
        (torch.arange(6).view(3, 2), torch.tensor([1, 2]), 0),  # halves of whole numbers
        (torch.ones(3, 2), torch.tensor([1, 3]), 1),
        (torch.ones(3, 0), torch.tensor([1, 2]), 2),  # of none there is no largest
        (torch.ones(3, 2), torch.tensor([0, 1, 2]), 3),  # of three no pair
    ],
)
def test_the_operator_whose_kernel_fails_is_named(x: Tensor, rows: Tensor, place: int) -> None:
    before, ops = x.clone(), _ops()
    with pytest.raises(KernelFailed) as failed:
        blaming(_failing, _graph(), ops)(x, rows)
    assert failed.value.op is ops[place]
    assert "While executing" not in str(failed.value)
    assert isinstance(failed.value.__cause__, RuntimeError)
    assert torch.equal(x, before)


@pytest.mark.parametrize("ops", [_ops, lambda: [None] * 4])
def test_what_no_operator_does_stays(ops: Callable[[], list[Any]]) -> None:
    rows = torch.tensor([1, 9 if ops()[0] is None else 2])
    with pytest.raises(RuntimeError, match="cpp_fused_7"):
        blaming(_failing, _graph(), ops())(torch.ones(3, 2), rows)


def test_what_succeeds_is_what_the_function_gives() -> None:
    assert blaming(lambda *given: given, _graph(), _ops())(1, 2) == (1, 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_label_too_large_is_the_losss_fault() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, label = fluid.data("x", [-1, 6]), fluid.data("label", [-1, 1], "int64")
        chances = fluid.layers.fc(x, 5, act="softmax")
        loss = fluid.layers.mean(fluid.layers.cross_entropy(chances, label))
        fluid.optimizer.SGD(0.3).minimize(loss)
    exe, feed = fluid.Executor(), {"x": np.ones((4, 6), "f4"), "label": np.zeros((4, 1), "int64")}
    with (
        fluid.scope_guard(fluid.Scope()),
        flags.override({"FLAGS_refluid_tier": "compiled"}),
        trial.compiling_at_once(),
    ):
        exe.run(startup)
        for _ in range(6):
            exe.run(main, feed, [loss])
        feed["label"][2] = 5
        with pytest.raises(EnforceNotMet, match=r"label.* expected >= 0 and < 5") as failed:
            exe.run(main, feed, [loss])
    assert __file__ in str(failed.value)
