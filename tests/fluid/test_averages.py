"""ModelAverage and ExponentialMovingAverage against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from tests.fluid.training_steps import START, Array, batches, build

opt = fluid.optimizer
Parameters = dict[str, Array]


def run(make: Callable[[Any], Any], steps: int) -> tuple[list[Parameters], Any, Any, Any]:
    """Parameters after each step, what `make` returned, the executor and the scope.

    The three that come back can be used within `fluid.scope_guard(scope)`.
    """
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = build({})
        opt.SGD(0.1).minimize(loss)
        made = make(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    history = []
    with fluid.scope_guard(scope):
        exe.run(startup)
        for name, value in START.items():
            scope.find_var(name).get_tensor().set(value, fluid.CPUPlace())
        for x in batches(steps):
            exe.run(main, {"x": x})
            history.append(held(scope))
    return history, made, exe, scope


def held(scope: Any) -> Parameters:
    return {name: np.array(scope.find_var(name).get_tensor()) for name in START}


def same(one: Parameters, other: Parameters) -> None:
    for name in START:
        np.testing.assert_allclose(one[name], other[name], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(("steps", "first"), [(3, 0), (5, 0), (6, 0), (7, 3), (9, 3)])
def test_model_average(steps: int, first: int) -> None:
    """Windows of three steps: the average is of the window before the last, and what follows."""
    history, average, exe, scope = run(
        lambda loss: opt.ModelAverage(0.5, min_average_window=3, max_average_window=3), steps
    )
    window = history[first if steps != 6 else 3 :]
    if steps in (5, 9):
        window = history[steps - (steps % 3) - 3 :]
    mean = {name: np.mean([one[name] for one in window], 0) for name in START}
    with fluid.scope_guard(scope):
        with average.apply(exe):
            same(held(scope), mean)
        same(held(scope), history[-1])


def test_averages_stay_where_they_shall() -> None:
    history, average, exe, scope = run(lambda loss: opt.ModelAverage(0.5), 2)
    with fluid.scope_guard(scope):
        with average.apply(exe, need_restore=False):
            pass
        same(held(scope), {name: (history[0][name] + history[1][name]) / 2 for name in START})
        average.restore(exe)
        same(held(scope), history[-1])


def _moving(decays: list[float], history: list[Parameters]) -> Parameters:
    found = {}
    for name in START:
        average = np.zeros_like(START[name])
        for decay, one in zip(decays, history, strict=True):
            average = decay * average + (1 - decay) * one[name]
        found[name] = average / (1 - decays[-1] ** len(decays))
    return found


@pytest.mark.parametrize("scheduled", [False, True])
def test_exponential_moving_average(scheduled: bool) -> None:
    def make(loss: Any) -> Any:
        steps = fluid.layers.autoincreased_step_counter() if scheduled else None
        ema = opt.ExponentialMovingAverage(0.3, thres_steps=steps)
        ema.update()
        return ema

    history, ema, exe, scope = run(make, 4)
    decays = [min(0.3, (1 + step) / (10 + step)) if scheduled else 0.3 for step in range(1, 5)]
    with fluid.scope_guard(scope):
        with ema.apply(exe):
            same(held(scope), _moving(decays, history))
        same(held(scope), history[-1])


def test_parameters_that_are_not_averaged() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        attr = fluid.ParamAttr(name="apart", do_model_average=False)
        fluid.layers.fc(fluid.data("x", [-1, 3]), 2, param_attr=attr)
        average = opt.ModelAverage(0.5)
    assert [param.name for param, _ in average.params_grads] == ["fc_0.b_0"]


def test_moving_averages_of_a_checkpoint_in_a_program_that_only_infers(tmp_path: Any) -> None:
    folder = str(tmp_path)

    def make(loss: Any) -> Any:
        ema = opt.ExponentialMovingAverage(0.3)
        ema.update()
        return fluid.default_main_program()

    history, trained, exe, scope = run(make, 4)
    with fluid.scope_guard(scope):
        fluid.io.save_persistables(exe, folder, trained)
    main, startup, fresh = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        build({})
        ema = opt.ExponentialMovingAverage(0.3)
    kept = [var for var in startup.list_vars() if var.persistable]
    with fluid.scope_guard(fresh):
        exe.run(startup)
        fluid.io.load_vars(exe, folder, startup, vars=kept)
        with ema.apply(exe):
            same(held(fresh), _moving([0.3] * 4, history))
        same(held(fresh), history[-1])
