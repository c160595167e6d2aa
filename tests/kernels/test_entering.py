"""Compiled graphs are entered without autograd's wrapper only where it has nothing to do."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from refluid.kernels import inductor
from refluid.kernels.parts import left_out

# Of torch, which calls what it warns of.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Made:
    """What stands for TorchInductor's result: the graph as it is, and how often it was entered."""

    def __init__(self, graph: GraphModule) -> None:
        self.graph, self.entered = graph, 0

    def current_callable(self, given: list[Any]) -> Any:
        self.entered += 1
        return self.graph(*given)

    def __call__(self, given: list[Any]) -> Any:
        return self.graph(*given)

    _boxed_call = True


def plain(x: Tensor, y: Tensor) -> Any:
    return torch.mm(x, y), x + 1


def written(x: Tensor, y: Tensor) -> Any:
    return (x.mul_(y),)


def view_of_what_is_given(x: Tensor, y: Tensor) -> Any:
    return x.t(), x + y


def view_of_a_result(x: Tensor, y: Tensor) -> Any:
    z = x + y
    return z, z.t()


def given_twice(x: Tensor, y: Tensor) -> Any:
    z = x + y
    return z, z


def written_and_view(x: Tensor, y: Tensor) -> Any:
    return (x.add_(y).t(),)


def sharing(tensors: list[Tensor]) -> list[int]:
    """The number of the first of them with the same memory."""
    places = [one.untyped_storage().data_ptr() for one in tensors]
    return [places.index(one) for one in places]


@pytest.mark.parametrize(
    ("function", "direct"),
    [
        (plain, True),
        (written, None),
        (view_of_what_is_given, False),
        (view_of_a_result, None),
        (given_twice, None),
        (written_and_view, False),
    ],
)
def test_results_are_those_of_the_function(
    function: Callable[..., Any], direct: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Made] = []

    def inner(graph: GraphModule, inputs: Any, **how: Any) -> Made:
        made.append(Made(graph))
        return made[-1]

    ours, x, y = inductor.part, torch.rand(3, 3), torch.rand(3, 3)
    monkeypatch.setattr(
        inductor, "part", lambda name, other: inner if "inner" in name else ours(name, other)
    )
    compiled = inductor.compile_graph(make_fx(function)(x.clone(), y), [x, y])
    mine, other = x.clone(), x.clone()
    found, wanted = compiled(mine, y), function(other, y)
    assert [one.tolist() for one in found] == [one.tolist() for one in wanted]
    assert torch.equal(mine, other)
    assert sharing([*found, mine]) == sharing([*wanted, other])
    if direct is not None:
        assert made[0].entered == direct


def drawn(seed: int) -> tuple[Callable[..., Any], list[Tensor]]:
    """Some twenty operators drawn at random, of which some results are given back."""

    def function(*given: Tensor) -> Any:
        source, values, fresh = random.Random(seed), [*given], list[Tensor]()
        for _ in range(source.randint(14, 26)):
            x, y = source.choice(values), source.choice(values)
            made = source.choice(
                [
                    lambda x=x, y=y: torch.mm(x, y),
                    lambda x=x, y=y: torch.addmm(x[0], x, y),
                    lambda x=x, y=y: (x + y).relu(),
                    lambda x=x, y=y: torch.tanh(x) * y,
                    lambda x=x: x.t(),
                    lambda x=x: x.sum(0, keepdim=True) / 4 + x,
                    lambda x=x: torch.softmax(x, 1),
                    lambda x=x: x.clone().mul_(0.5),
                ]
            )()
            values.append(made * 0.5)
            fresh.append(made)
        given[0].add_(fresh[-1], alpha=0.1)
        return tuple(source.sample(fresh, 4))

    generator = torch.Generator().manual_seed(seed)
    return function, [torch.rand(4, 4, generator=generator) for _ in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("without", ["", inductor._INNER, inductor._TRACING])
@pytest.mark.parametrize("seed", range(4))
def test_graphs_drawn_at_random(seed: int, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if without:
        monkeypatch.setattr("refluid.kernels.parts.left_out", {*left_out, without})
    function, given = drawn(seed)
    module = make_fx(function)(*[one.clone() for one in given])
    compiled = inductor.compile_graph(module, given)
    for scale in (1.0, -2.0):
        mine, other = ([one * scale for one in given] for _ in range(2))
        found, wanted = compiled(*mine), function(*other)
        for one, its in zip([*found, *mine], [*wanted, *other], strict=True):
            torch.testing.assert_close(one, its, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_what_cpp_cannot_say_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    ours = inductor._compiled

    def compiled(*of: Any) -> Any:
        asked.append(of[-1])
        if of[-1]:
            raise RuntimeError("planted")
        return ours(*of)

    monkeypatch.setattr(inductor, "_compiled", compiled)
    function, given = drawn(1)
    made = inductor.compile_graph(make_fx(function)(*[one.clone() for one in given]), given)
    assert asked == [inductor._BY_CPP, {}]
    torch.testing.assert_close(made(*map(torch.clone, given)), function(*map(torch.clone, given)))


@pytest.mark.slow
@pytest.mark.parametrize("length", [3, 20])
def test_results_that_would_lie_otherwise_are_told(length: int) -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        x.mul_(2.0)
        for _ in range(length):
            y = torch.tanh(y + x)
        return y.t(), y.sum(0), y * 2.0

    x, y = torch.rand(3, 4), torch.rand(3, 4)
    module = make_fx(function)(x.clone(), y)
    results = [torch.empty(3, 4).t(), torch.empty(4), torch.empty(3, 4)]
    compiled = inductor.compile_graph(module, [x, y], results)
    mine, other = x.clone(), x.clone()
    for one, its in zip(compiled(mine, y), function(other, y), strict=True):
        torch.testing.assert_close(one, its)
    with pytest.raises(inductor.LaidOtherwiseError, match=r"result 2 .* strides \(1, 3\)"):
        inductor.compile_graph(module, [x, y], [*results[:2], torch.empty(4, 3).t()])


@pytest.mark.slow
def test_nothing_is_said_of_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch warns of each tensor without memory that C++ makes."""
    said: list[str] = []
    log = logging.getLogger(inductor._SAYS)
    monkeypatch.setattr(log, "handle", lambda record: said.append(record.getMessage()))
    level = log.level

    def function(x: Tensor) -> Any:
        for _ in range(inductor._MANY):
            x = torch.tanh(x + 1.0)
        return x, torch.empty_strided((3, 2), (2, 1), device="meta")

    module = make_fx(function)(torch.rand(3, 3))
    found = inductor.compile_graph(module, [torch.rand(3, 3)])(torch.rand(3, 3))
    assert found[1].is_meta and not said and log.level == level
    monkeypatch.setattr(inductor, "_unsaid", nullcontext)
    inductor.compile_graph(make_fx(function)(torch.rand(4, 3)), [torch.rand(4, 3)])
    assert any("c-shim" in one for one in said)
