"""Updates of many parameters at once do what each one's formula says, whatever the layouts."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.kernels import fused
from refluid.ops.optimizer import adam as optimizer_adam
from refluid.ops.optimizer import gradient_descent as optimizer
from refluid.ops.optimizer.fused import adagrad_step, scale_all

SHAPES = [(4, 3), (7,), (2, 3, 4, 5), (1, 6)]


def _values(seed: int, layout: str = "plain") -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    values = [torch.rand(shape, generator=generator) + 0.1 for shape in SHAPES]
    if layout == "turned":
        values[0] = values[0].t().contiguous().t()
    if layout in ("turned", "last"):
        values[2] = values[2].to(memory_format=torch.channels_last)
    return values


def _copies(values: list[Tensor]) -> list[Tensor]:
    return [value.double().contiguous() for value in values]


@pytest.mark.parametrize("layout", ["plain", "turned"])
def test_sgd(layout: str) -> None:
    params, grads = _values(1), _values(2, layout)
    rates = [torch.full((1,), 0.1), torch.full((1,), 0.1), *[torch.full((1,), 0.3)] * 2]
    expected = [p - g * r for p, g, r in zip(*map(_copies, (params, grads, rates)), strict=True)]
    optimizer.sgd_many(params, rates, grads)
    for param, want in zip(params, expected, strict=True):
        torch.testing.assert_close(param.double(), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("layouts", ["plain plain plain", "plain turned plain", "last plain plain"])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("mu", [0.9, 0.0])
def test_momentum(layouts: str, nesterov: bool, mu: float) -> None:
    params, grads, velocities = (
        _values(seed, layout) for seed, layout in enumerate(layouts.split())
    )
    old_p, old_g, old_v = map(_copies, (params, grads, velocities))
    optimizer.momentum_many(
        params, grads, velocities, [torch.full((1,), 0.1)] * 4, mu=mu, use_nesterov=nesterov
    )
    for i in range(4):
        velocity = mu * old_v[i] + old_g[i]
        step = old_g[i] + mu * velocity if nesterov else velocity
        torch.testing.assert_close(velocities[i].double(), velocity, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(params[i].double(), old_p[i] - 0.1 * step, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("layouts", ["plain plain plain plain", "last turned plain plain"])
def test_adam(layouts: str) -> None:
    params, grads, first, second = (
        _values(seed, layout) for seed, layout in enumerate(layouts.split())
    )
    old_p, old_g, old_m, old_v = map(_copies, (params, grads, first, second))
    powers1 = [torch.full((1,), value) for value in (0.9, 0.9, 0.81, 0.9)]
    powers2 = [torch.full((1,), value) for value in (0.999, 0.999, 0.998001, 0.999)]
    old_1, old_2 = _copies(powers1), _copies(powers2)
    rates = [torch.full((1,), 0.1)] * 4
    kept = first, second, powers1, powers2
    optimizer_adam.adam_many(params, grads, rates, *kept, [], [], epsilon=1e-3)
    for i in range(4):
        m, v = 0.9 * old_m[i] + 0.1 * old_g[i], 0.999 * old_v[i] + 0.001 * old_g[i] ** 2
        rate = 0.1 * (1 - old_2[i]).sqrt() / (1 - old_1[i])
        want = old_p[i] - rate * m / (v.sqrt() + 1e-3)
        torch.testing.assert_close(params[i].double(), want, rtol=2e-6, atol=2e-6)
        torch.testing.assert_close(first[i].double(), m, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(second[i].double(), v, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(powers1[i].double(), old_1[i] * 0.9)
        torch.testing.assert_close(powers2[i].double(), old_2[i] * 0.999)


class Lying:
    """Parameters that lie in orders drawn at random, with states that do too and gradients that
    may lie otherwise; which of torch's kernels were given what."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        draws = random.Random(seed)
        orders = [draws.sample(range(len(shape)), len(shape)) for shape in SHAPES]
        self.params, self.grads, *self.states = (
            [
                one.permute(order).contiguous().permute([order.index(n) for n in range(one.dim())])
                for one, order in zip(_values(seed + number), orders, strict=True)
            ]
            for number in range(4)
        )
        if draws.random() < 0.5:
            self.grads = [one.contiguous() for one in self.grads]
        self.seen: list[Tensor] = []
        for name in ("sgd_", "adam_", "adagrad_"):
            monkeypatch.setattr(fused, name, partial(self._called, getattr(fused, name)))

    def _called(self, kernel: Any, *lists: list[Tensor], **named: Any) -> None:
        self.seen += [one for values in lists for one in values]
        kernel(*lists, **named)

    def plain(self) -> tuple[list[Tensor], ...]:
        return tuple(map(_copies, (self.params, self.grads, *self.states)))

    def judge(self, *wanted: list[Tensor]) -> None:
        """Also that torch's kernels, which copy others, were given rows after rows."""
        for own, want in zip((self.params, *self.states), wanted, strict=False):
            for one, other in zip(own, want, strict=True):
                torch.testing.assert_close(one.double(), other, rtol=2e-6, atol=2e-6)
        assert self.seen and all(one.is_contiguous() for one in self.seen)


@pytest.mark.parametrize("steady", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_parameters_that_lie_in_any_order(
    seed: int, steady: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Lying(seed, monkeypatch)
    params, grads, velocities, _ = one.plain()
    velocities = [0.9 * v + g for v, g in zip(velocities, grads, strict=True)]
    params = [p - 0.1 * v for p, v in zip(params, velocities, strict=True)]
    if steady:
        kept = {"Param": one.params, "Velocity": one.states[0]}
        step = optimizer.momentum_steady(kept, mu=0.9)
        assert step is not None
        step(one.grads, 0.1)
    else:
        rates = [torch.full((1,), 0.1)] * 4
        optimizer.momentum_many(one.params, one.grads, one.states[0], rates, mu=0.9)
    one.judge(params, velocities)


@pytest.mark.parametrize("steady", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_adam_of_parameters_that_lie_in_any_order(
    seed: int, steady: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Lying(seed, monkeypatch)
    params, grads, first, second = one.plain()
    first = [0.9 * m + 0.1 * g for m, g in zip(first, grads, strict=True)]
    second = [0.999 * v + 0.001 * g**2 for v, g in zip(second, grads, strict=True)]
    rate = 0.1 * (1 - 0.999) ** 0.5 / (1 - 0.9)
    every = zip(params, first, second, strict=True)
    params = [p - rate * m / (v.sqrt() + 1e-3) for p, m, v in every]
    powers = [[torch.full((1,), value) for _ in SHAPES] for value in (0.9, 0.999)]
    if steady:
        kept = {"Param": one.params, "Moment1": one.states[0], "Moment2": one.states[1]}
        step = optimizer_adam.steady_step(
            {**kept, "Beta1Pow": powers[0], "Beta2Pow": powers[1]}, epsilon=1e-3
        )
        assert step is not None
        step(one.grads, 0.1)
    else:
        rates = [torch.full((1,), 0.1)] * 4
        given = one.grads, rates, *one.states, *powers, [], []
        optimizer_adam.adam_many(one.params, *given, epsilon=1e-3)
    one.judge(params, first, second)


@pytest.mark.parametrize("seed", range(12))
def test_adagrad_of_parameters_that_lie_in_any_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Lying(seed, monkeypatch)
    params, grads, moments, _ = one.plain()
    moments = [m + g**2 for m, g in zip(moments, grads, strict=True)]
    every = zip(params, grads, moments, strict=True)
    params = [p - 0.1 * g / (m.sqrt() + 1e-3) for p, g, m in every]
    adagrad_step(one.params, one.grads, one.states[0], 0.1, 1e-3)
    one.judge(params, moments)


def test_scale_all_rounds_as_a_product() -> None:
    values = [torch.full((1,), 0.9), torch.full((1,), 0.123)]
    expected = [value * 0.9 for value in values]
    scale_all(values, 0.9)
    assert all(torch.equal(one, other) for one, other in zip(values, expected, strict=True))
    scale_all(values, 0.0)
    assert [float(value) for value in values] == [0.0, 0.0]
