"""Learning-rate schedules over ten steps against their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.fluid import layers
from refluid.ir.attributes import OpRole
from tests.fluid.training_steps import START, batches, gradient, train

STEPS = 10


def polynomial(step: float, cycle: bool) -> float:
    steps = 4.0
    if cycle:
        steps *= max(1, math.ceil(step / steps))
    return (0.5 - 0.1) * (1 - min(step, steps) / steps) ** 2 + 0.1


def noam(step: int) -> float:
    return 2.0 * 64**-0.5 * min((step + 1) ** -0.5, (step + 1) * 4**-1.5)


# Each schedule with its value at step 0, 1, ...
SCHEDULES: dict[str, tuple[Callable[[], Any], Callable[[int], float]]] = {
    "noam": (lambda: layers.noam_decay(64, 4, learning_rate=2.0), noam),
    "exponential": (
        lambda: layers.exponential_decay(0.5, 4, 0.8),
        lambda step: 0.5 * 0.8 ** (step / 4),
    ),
    "exponential stairs": (
        lambda: layers.exponential_decay(0.5, 4, 0.8, staircase=True),
        lambda step: 0.5 * 0.8 ** (step // 4),
    ),
    "natural exponential": (
        lambda: layers.natural_exp_decay(0.5, 4, 0.8),
        lambda step: 0.5 * math.exp(-0.8 * step / 4),
    ),
    "natural exponential stairs": (
        lambda: layers.natural_exp_decay(0.5, 4, 0.8, staircase=True),
        lambda step: 0.5 * math.exp(-0.8 * (step // 4)),
    ),
    "inverse time": (
        lambda: layers.inverse_time_decay(0.5, 4, 0.8),
        lambda step: 0.5 / (1 + 0.8 * step / 4),
    ),
    "inverse time stairs": (
        lambda: layers.inverse_time_decay(0.5, 4, 0.8, staircase=True),
        lambda step: 0.5 / (1 + 0.8 * (step // 4)),
    ),
    "polynomial": (
        lambda: layers.polynomial_decay(0.5, 4, 0.1, power=2.0),
        lambda step: polynomial(step, cycle=False),
    ),
    "polynomial cycle": (
        lambda: layers.polynomial_decay(0.5, 4, 0.1, power=2.0, cycle=True),
        lambda step: polynomial(step, cycle=True),
    ),
    "piecewise": (
        lambda: layers.piecewise_decay([3, 7], [0.5, 0.2, 0.1]),
        lambda step: 0.5 if step < 3 else 0.2 if step < 7 else 0.1,
    ),
    "cosine": (
        lambda: layers.cosine_decay(0.5, 2, 6),
        lambda step: 0.25 * (math.cos((step // 2) * math.pi / 6) + 1),
    ),
    "warm-up": (
        lambda: layers.linear_lr_warmup(0.5, 4, 0.1, 0.3),
        lambda step: 0.1 + 0.2 * step / 4 if step < 4 else 0.5,
    ),
    "warm-up of a schedule": (
        lambda: layers.linear_lr_warmup(layers.cosine_decay(0.5, 2, 6), 4, 0.1, 0.3),
        lambda step: (
            0.1 + 0.2 * step / 4 if step < 4 else 0.25 * (math.cos((step // 2) * math.pi / 6) + 1)
        ),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    schedule, wanted = SCHEDULES[name]

    def minimize(loss: Any) -> Any:
        rate = schedule()
        fluid.optimizer.SGD(rate).minimize(loss)
        return rate

    history = train(minimize, STEPS)
    rates = [float(values["rate"][0]) for values in history]
    np.testing.assert_allclose(rates, [wanted(step) for step in range(STEPS)], rtol=2e-5)
    steps = zip(rates, batches(STEPS), strict=True)
    updates = sum(rate * gradient("first", x) for rate, x in steps)
    np.testing.assert_allclose(history[-1]["first"], START["first"] - updates, rtol=1e-4)


def test_piecewise_decay_needs_one_value_more_than_boundaries() -> None:
    with pytest.raises(ValueError, match="2 values and 2 boundaries"):
        layers.piecewise_decay([1, 2], [0.1, 0.2])


def test_a_schedule_stays_in_a_copy_for_tests_made_before_minimize() -> None:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        rate = layers.exponential_decay(0.5, 1, 0.5)
        shown = layers.create_global_var([1], 0.0, "float32", persistable=True, name="shown")
        layers.assign(rate, shown)
        loss = layers.mean(layers.fc(fluid.data("x", [-1, 3]), 1))
        before = main.clone(for_test=True)
        fluid.optimizer.SGD(rate).minimize(loss)
        after = main.clone(for_test=True)
    exe, feed = fluid.Executor(fluid.CPUPlace()), {"x": batches(1)[0]}
    with fluid.scope_guard(scope):
        exe.run(startup)
        seen = [exe.run(one, feed, [shown])[0].item() for one in (main, before, before, main)]
    assert seen == [0.5, 0.25, 0.125, 0.0625]
    roles = {op.role for op in after.global_block().ops}
    assert roles == {0, OpRole.LOSS}
