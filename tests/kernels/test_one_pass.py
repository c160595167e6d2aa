"""Updates in one pass over memory are those that torch computes term by term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid import fluid
from refluid.core import flags
from refluid.kernels import one_pass
from refluid.ops.registry import find

FLAG = "FLAGS_refluid_one_pass_updates"
# The states of each update, which start at 0 or above, and its numbers.
UPDATES: Mapping[str, tuple[str, list[dict[str, Any]]]] = {
    "decayed_adagrad": ("Moment", [{"l2_decay": 0.1}, {"decay": 0.7, "epsilon": 1e-3}]),
    "rmsprop": (
        "Moment MeanSquare MeanGrad",
        [
            {},
            {"momentum": 0.9, "decay": 0.8, "l2_decay": 0.3},
            {"centered": True, "momentum": 0.5, "epsilon": 1.0, "l2_decay": 0.01},
        ],
    ),
    "adamax": (
        "Moment InfNorm",
        [{"l2_decay": 0.1}, {"beta1": 0.5, "beta2": 0.8, "epsilon": 1e-2}],
    ),
    "adadelta": (
        "AvgSquaredGrad AvgSquaredUpdate",
        [{"l2_decay": 0.1}, {"rho": 0.5, "epsilon": 1e-3}],
    ),
    "lars_momentum": ("Velocity", [{"mu": 0.9}, {"mu": 0.5, "lars_weight_decay": 0.1}]),
    "lamb": ("Moment1 Moment2", [{"weight_decay": 0.01}, {"weight_decay": 0.0, "beta1": 0.5}]),
}


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """As many afterwards as before."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def _shape(draws: np.random.Generator) -> tuple[int, ...]:
    kind = draws.integers(0, 5)
    if kind == 0:
        return (int(draws.integers(1, 60)),)
    if kind == 1:
        return (int(draws.choice([16383, 16384, 16385, 8192 * 3, 8192 * 3 + 1])),)
    if kind == 2:
        return int(draws.integers(1, 300)), int(draws.integers(60, 400))
    if kind == 3:
        return int(draws.integers(8, 40)), int(draws.integers(8, 40)), 3, int(draws.integers(3, 20))
    return (int(draws.integers(50000, 100000)),)


def _laid(value: Tensor, kind: int) -> Tensor:
    """The same numbers, in an order of memory."""
    if value.dim() == 4 and kind < 3:
        return value.contiguous(memory_format=torch.channels_last)
    if value.dim() == 2 and kind == 0:
        return value.t().contiguous().t()
    if kind == 1:
        room = torch.empty(*value.shape[:-1], value.shape[-1] * 2)[..., ::2]
        return room.copy_(value)
    return value


class Drawn:
    """Parameters and what belongs to them, drawn by a seed."""

    def __init__(self, type: str, seed: int) -> None:
        draws = np.random.default_rng(seed)
        states, numbers = UPDATES[type]
        self.kept = ["Param", *states.split()]
        self.numbers = dict(numbers[int(draws.integers(len(numbers)))])
        shapes = [_shape(draws) for _ in range(draws.integers(1, 5))]
        kind = torch.float64 if draws.random() < 0.1 else torch.float32
        spread = float(draws.choice([1e-3, 1.0, 100.0]))

        orders = [int(draws.integers(6)) for _ in shapes]

        def numbers_like(place: int, low: float) -> Tensor:
            made = torch.from_numpy(draws.uniform(low, 1.0, shapes[place]) * spread + 1e-3)
            other = draws.random() < 0.15
            return _laid(made.to(kind), int(draws.integers(6)) if other else orders[place])

        self.given: dict[str, list[Tensor]] = {}
        for name in ["Param", "Grad", *states.split()]:
            low = -1.0 if name in ("Param", "Grad", "Moment1", "Velocity") else 0.0
            self.given[name] = [numbers_like(place, low) for place in range(len(shapes))]
        for mean in self.given.get("MeanGrad", []):
            mean.mul_(1e-3)  # its square is less than that of squares
        if draws.random() < 0.3:
            self.given["Param"][0].zero_()
        rates = [torch.tensor([0.1]), torch.tensor([0.01])]
        self.given["LearningRate"] = [rates[int(draws.integers(2))] for _ in shapes]
        for name in ("Beta1Pow", "Beta2Pow"):
            self.given[name] = [torch.tensor([0.9 ** int(draws.integers(1, 9))]) for _ in shapes]


def _updated(type: str, seed: int, *, single: bool) -> list[Tensor]:
    """The parameters and states after the update."""
    drawn, definition = Drawn(type, seed), find(type)
    assert definition is not None and definition.many is not None and definition.body is not None
    slots = [slot.name for slot in definition.inputs]
    lists = [drawn.given[slot] for slot in slots]
    if single:
        for row in zip(*lists, strict=True):
            definition.body(*row, **drawn.numbers)
    else:
        definition.many(*lists, **drawn.numbers)
    return [one for name in drawn.kept for one in drawn.given[name]]


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("type", UPDATES)
def test_any_parameters(type: str, seed: int) -> None:
    torch.set_num_threads(1 + seed % 3)
    with flags.override({FLAG: False}):
        known = _updated(type, seed, single=False)
    for single in (False, True):
        found = _updated(type, seed, single=single)
        for one, other in zip(found, known, strict=True):
            scale = max(1e-30, float(other.abs().max()))
            torch.testing.assert_close(one / scale, other / scale, rtol=3e-6, atol=3e-7)


@pytest.mark.parametrize("type", UPDATES)
def test_which_parameters(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones without gaps, in one order; how they are grouped changes no bit."""
    runs: list[list[int]] = []
    run = one_pass.Parts.run

    def noted(self: Any, *given: Any) -> Any:
        runs.append([int(one) for one in self._sizes])
        return run(self, *given)

    monkeypatch.setattr(one_pass.Parts, "run", noted)
    sizes: set[int] = set()
    for seed in range(30):
        drawn, runs[:] = Drawn(type, seed), []
        together = _updated(type, seed, single=False)
        taken = sorted(size for one in runs for size in one)
        runs[:] = []
        for one, other in zip(together, _updated(type, seed, single=True), strict=True):
            assert torch.equal(one, other)
        assert sorted(size for one in runs for size in one) == taken
        sizes.update(taken)
        every = zip(*(drawn.given[name] for name in ["Grad", *drawn.kept]), strict=True)
        suited = [
            row[0].numel()
            for row in every
            if row[0].numel() >= 2**14
            and row[0].dtype is torch.float32
            and len({one.stride() for one in row}) == 1
            and not any(one.stride() != one.clone().stride() for one in row)
        ]
        assert sorted({*taken}) == sorted({*suited})
    assert len(sizes) > 3
    with flags.override({FLAG: False}):
        runs[:] = []
        _updated(type, 0, single=False)
        assert not runs


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("type", UPDATES)
def test_what_is_no_number_stays_so(type: str, bad: float, monkeypatch: Any) -> None:
    def broken(self: Drawn, type: str, seed: int) -> None:
        begin(self, type, seed)
        self.given["Grad"] = [one.clone() for one in self.given["Grad"]]
        self.given["Grad"][0][(0,) * self.given["Grad"][0].dim()] = bad

    begin = Drawn.__init__
    monkeypatch.setattr(Drawn, "__init__", broken)
    for seed in range(6):
        with flags.override({FLAG: False}):
            known = _updated(type, seed, single=False)
        found = _updated(type, seed, single=False)
        for one, other in zip(found, known, strict=True):
            scale = max(1e-30, float(other.nan_to_num(0.0, 0.0, 0.0).abs().max()))
            torch.testing.assert_close(
                one / scale, other / scale, rtol=3e-6, atol=3e-7, equal_nan=True
            )


OPTIMIZERS: Mapping[str, Any] = {
    "decayed_adagrad": lambda: fluid.optimizer.DecayedAdagrad(0.01),
    "rmsprop": lambda: fluid.optimizer.RMSProp(0.001, momentum=0.5, centered=True),
    "adamax": lambda: fluid.optimizer.Adamax(0.01),
    "adadelta": lambda: fluid.optimizer.Adadelta(1.0),
    "lars_momentum": lambda: fluid.optimizer.LarsMomentum(0.1, 0.9),
    "lamb": lambda: fluid.optimizer.Lamb(0.01),
}


def _trained(type: str, tier: str) -> list[Any]:
    """Losses of some steps of a network with large and small parameters, and the parameters."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with flags.override({"FLAGS_refluid_tier": tier}), fluid.unique_name.guard():
        with fluid.program_guard(main, startup):
            x = fluid.data("x", [None, 150])
            hidden = fluid.layers.fc(fluid.layers.fc(x, 150, act="tanh"), 150, act="relu")
            loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, 3) - 1.0))
            OPTIMIZERS[type]().minimize(loss)
        scope, executor = fluid.Scope(), fluid.Executor()
        executor.run(startup, scope=scope)
        draws = np.random.RandomState(4)
        made = []
        for _ in range(7):
            given = {"x": draws.randn(8, 150).astype("float32")}
            made += executor.run(main, given, [loss], scope=scope)
        names = [one.name for one in main.all_parameters()]
        made += [np.array(scope.find_var(name).get_tensor()) for name in names]
    return made


@pytest.mark.parametrize("type", OPTIMIZERS)
def test_recorded_steps_do_the_same(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, run = [0], one_pass.Parts.run

    def noted(self: Any, *given: Any) -> Any:
        runs[0] += len(self._sizes)
        return run(self, *given)

    monkeypatch.setattr(one_pass.Parts, "run", noted)
    interpreted = _trained(type, "interpreted")
    count, runs[0] = runs[0], 0
    assert count >= 14  # two large parameters, seven steps
    for one, other in zip(interpreted, _trained(type, "recorded"), strict=True):
        assert np.array_equal(one, other)
    assert runs[0] == count
    with flags.override({FLAG: False}):
        runs[0] = 0
        for one, other in zip(interpreted, _trained(type, "interpreted"), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        assert not runs[0]
