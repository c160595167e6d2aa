"""Updates of many parameters at once do what each one's formula says, whatever the layouts."""

import pytest
import torch
from torch import Tensor

from refluid.ops.optimizer import adam as optimizer_adam
from refluid.ops.optimizer import gradient_descent as optimizer
from refluid.ops.optimizer.fused import scale_all

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


def test_scale_all_rounds_as_a_product() -> None:
    values = [torch.full((1,), 0.9), torch.full((1,), 0.123)]
    expected = [value * 0.9 for value in values]
    scale_all(values, 0.9)
    assert all(torch.equal(one, other) for one, other in zip(values, expected, strict=True))
    scale_all(values, 0.0)
    assert [float(value) for value in values] == [0.0, 0.0]
