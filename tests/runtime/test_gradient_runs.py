"""Gradients below 1.2e-38 are zeros in recorded steps; nothing else is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.kernels import subnormals
from refluid.runtime.code import Code
from refluid.runtime.recorded import gradient_runs
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Call, Return

pytestmark = pytest.mark.skipif(subnormals._functions() is None, reason="not x86-64 with glibc")

Values = list[npt.NDArray[np.float32]]
LEAST = float(np.finfo(np.float32).smallest_normal)


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_runs, "MANY", 1)


def _trained(seed: int, *, flushed: bool, steps: int = 6) -> tuple[Values, Values, Values]:
    """Losses, gradients and parameters of attention that is all but saturated, with Adam."""
    draws = np.random.default_rng(seed)
    rows, width, heads = (int(draws.integers(low, 24)) for low in (3, 4, 2))
    spread = float(draws.choice([6.0, 9.0, 12.0]))
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed + 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [heads, rows, width])
        query, key = (
            fluid.layers.fc(x, width, num_flatten_dims=2, param_attr=f"w{n}") for n in range(2)
        )
        scores = fluid.layers.matmul(query, key, transpose_y=True, alpha=spread)
        mixed = fluid.layers.matmul(fluid.layers.softmax(scores), x)
        loss = fluid.layers.mean(fluid.layers.square(mixed)) * 1e-10
        fluid.optimizer.Adam(1e-3).minimize(loss)
    fetches = [loss, "w0@GRAD", "w1@GRAD", query.name + "@GRAD"]
    scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
    given = {"FLAGS_refluid_flushed_gradients": flushed, "FLAGS_refluid_tier": "recorded"}
    with fluid.scope_guard(scope), flags.override(given):
        exe.run(startup)
        found = [
            exe.run(main, {"x": draws.normal(size=(heads, rows, width)).astype("f")}, fetches)
            for _ in range(steps)
        ]
        parameters = [np.array(scope.find_var(f"w{n}").get_tensor()) for n in range(2)]
    return [one[0] for one in found], [g for one in found for g in one[1:]], parameters


def _count(values: Values) -> int:
    """Of subnormal numbers, which comparisons under flushing would take for zeros."""
    bits = [one.view(np.uint32) & 0x7FFFFFFF for one in values]
    return sum(int(((one > 0) & (one < 1 << 23)).sum()) for one in bits)


def test_nothing_but_gradients_below_the_least_number_changes() -> None:
    """Of many networks. Their weights may differ where a rounding fell the other way."""
    there = 0
    for seed in range(16):
        losses, gradients, parameters = _trained(seed, flushed=True)
        its_losses, its_gradients, its_parameters = _trained(seed, flushed=False)
        there += _count(its_gradients)
        assert _count(gradients[3:]) == 0  # the first step isn't recorded yet
        for one, other in zip(losses, its_losses, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
        for one, other in zip(gradients, its_gradients, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=64 * LEAST)
        for one, other in zip(parameters, its_parameters, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    assert there > 100  # else nothing was tried


def test_what_a_network_computes_and_an_optimizer_keeps_stays_subnormal() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [2, 3])
        bias = fluid.layers.create_parameter([3], "float32", name="b")
        small = fluid.layers.scale(x, 1e-39)
        loss = fluid.layers.mean(fluid.layers.elementwise_add(x, bias)) * 1e-20
        fluid.optimizer.Adam(1e-3).minimize(loss)
    (squares,) = (var for var in main.list_vars() if "moment2" in var.name)
    exe = fluid.Executor(fluid.CPUPlace())
    feed = {"x": np.array([[1, 2, 3], [4, 5, 6]], "f")}
    with fluid.scope_guard(fluid.Scope()), flags.override({"FLAGS_refluid_tier": "recorded"}):
        exe.run(startup)
        for _ in range(4):
            found = exe.run(main, feed, [small, squares])
            assert _count(found) == 9


def test_what_is_computed_again_for_gradients_stays_subnormal() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [4, 3])
        hidden = fluid.layers.fc(x, 3)
        small = fluid.layers.scale(hidden, 1e-39)
        same = fluid.layers.scale(small, 1e38)
        squares = fluid.layers.square(same)
        loss = fluid.layers.mean(squares)
        optimizer = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(1e-3))
        optimizer._set_checkpoints([hidden, squares])
        optimizer.minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    feed = {"x": np.ones((4, 3), "f")}
    with fluid.scope_guard(fluid.Scope()), flags.override({"FLAGS_refluid_tier": "recorded"}):
        exe.run(startup)
        for _ in range(4):
            # What is fetched may be written to, so it is really computed again.
            made, gradient = exe.run(main, feed, [small, same.name + "@GRAD"])
            np.testing.assert_allclose(gradient, made * 1e38 / 6, rtol=1e-5)


def test_a_failure_between_leaves_nothing_behind() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    source = PlanSource()
    source.add(gradient_runs.flushing(source))
    source.add(Call(None, source.constant("fail", fail)))
    source.add(gradient_runs.keeping(source))
    source.add(Return(()))
    with pytest.raises(ZeroDivisionError):
        Code(source, {}, "test").run((), (), ())
    assert float(torch.full((1,), 1e-30).mul_(1e-9).view(torch.int32)) != 0


def test_short_runs_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_runs, "MANY", 1 << 20)
    asked: list[None] = []
    monkeypatch.setattr(subnormals, "flush", lambda: asked.append(None))
    _trained(1, flushed=True)
    assert not asked
    monkeypatch.setattr(gradient_runs, "MANY", 1)
    _trained(1, flushed=False)
    assert not asked
    _trained(1, flushed=True)
    assert asked
