"""Compiled functions are compared with their kernels at their first call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import symbolic_trace

from refluid.runtime.recorded.proving import proven

aten = torch.ops.aten


def scaled(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Writes over y. The last result is what rounding leaves."""
    aten.add_.Tensor(y, x)
    product, softmax = aten.mul.Tensor(x, y), aten.softmax.int(x, -1)
    return product, aten.sum.default(product), aten.sum.default(softmax - 1 / x.shape[-1])


def by(change: Callable[[Tensor], Tensor], place: int) -> Callable[..., Any]:
    """As `scaled`, but for one result (3: what is written over)."""

    def compiled(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        found = [*scaled(x, y), y]
        changed = change(found[place])
        found[place] = y.copy_(changed) if place == 3 else changed
        return tuple(found[:3])

    return compiled


def train(function: Callable[..., Any], x: Tensor) -> tuple[list[Any], Tensor, int]:
    """The results of three calls, y after them, and how often the kernels were run."""
    kernels, calls, y = symbolic_trace(scaled), list[int](), torch.ones_like(x)
    kernels.register_forward_pre_hook(lambda _module, _given: calls.append(1))
    call = proven(kernels, function, [1])
    return [call(x, y) for _ in range(3)], y, len(calls)


@pytest.mark.parametrize("seed", range(8))
def test_rounding_is_no_difference(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(seed)
    x = torch.randn(1 + seed, 50) * 10.0 ** (seed - 4)

    def reordered(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        y += x
        return (
            y * x,
            (y.double() * x).sum().float(),
            (x.double().softmax(-1).float() - 1 / x.shape[-1]).flip(-1).sum(),
        )

    _, _, kernels = train(reordered, x)
    assert kernels == 1
    assert not caplog.records


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize(
    "change",
    [
        lambda one: one * 1.01,
        lambda one: one + 1e-3 * one.abs().max() + 1e-3,
        lambda one: torch.full_like(one, float("nan")),
        lambda one: one.clone().index_fill_(0, torch.tensor(0), 3.0) if one.dim() else one + 1,
    ],
    ids=["scaled", "moved", "not a number", "a row"],
)
def test_other_numbers_leave_the_kernels(
    place: int, change: Callable[[Tensor], Tensor], caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(place)
    x = torch.randn(6, 8)
    with caplog.at_level(logging.WARNING, "refluid"):
        found, y, kernels = train(by(change, place), x)
    wanted, expected = torch.ones_like(x), []
    for _ in range(3):
        expected.append(scaled(x, wanted))
    assert torch.equal(y, wanted)
    for ours, its in zip(found, expected, strict=True):
        assert all(map(torch.equal, ours, its))
    assert kernels == 4
    (record,) = caplog.records
    assert "add_ mul softmax" in record.getMessage()


def test_whole_numbers_must_be_equal(caplog: pytest.LogCaptureFixture) -> None:
    def rank(x: Tensor) -> tuple[Tensor, ...]:
        return (aten.argsort.default(x),)

    x = torch.tensor([3.0, 1.0, 2.0])
    module = symbolic_trace(rank)
    assert proven(module, lambda x: (x.argsort() + 1,), [])(x)[0].tolist() == [1, 2, 0]
    assert len(caplog.records) == 1


def test_memory_that_nothing_is_written_to_is_not_compared(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What was written to is, where a graph writes in place."""

    def kernels(x: Tensor) -> tuple[Tensor, ...]:
        bare, filled = (aten.empty_like.default(x) for _ in range(2))
        aten.mul.out(x, x, out=filled)
        return aten.add.Tensor(x, 1.0), bare, filled

    def other(factor: float) -> Callable[..., Any]:
        return lambda x: (x + 1, torch.full_like(x, 7.0), x * x * factor)

    x = torch.randn(8)
    proven(symbolic_trace(kernels), other(1.0), [])(x)
    assert not caplog.records
    proven(symbolic_trace(kernels), other(1.01), [])(x)
    assert "computed something else" in caplog.text
