"""Learning rates of networks that run at once are those of the layers of programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid import dygraph, unique_name

SCHEDULES = {
    "exponential": (
        lambda: dygraph.ExponentialDecay(0.1, 3, 0.5, True),
        lambda: fluid.layers.exponential_decay(0.1, 3, 0.5, True),
    ),
    "natural": (
        lambda: dygraph.NaturalExpDecay(0.1, 3, 0.5),
        lambda: fluid.layers.natural_exp_decay(0.1, 3, 0.5),
    ),
    "inverse": (
        lambda: dygraph.InverseTimeDecay(0.1, 3, 0.5),
        lambda: fluid.layers.inverse_time_decay(0.1, 3, 0.5),
    ),
    "polynomial": (
        lambda: dygraph.PolynomialDecay(0.1, 3, 0.01, 2.0, True),
        lambda: fluid.layers.polynomial_decay(0.1, 3, 0.01, 2.0, True),
    ),
    "piecewise": (
        lambda: dygraph.PiecewiseDecay([2, 4], [0.1, 0.2, 0.3], 0),
        lambda: fluid.layers.piecewise_decay([2, 4], [0.1, 0.2, 0.3]),
    ),
    "cosine": (
        lambda: dygraph.CosineDecay(0.1, 2, 6),
        lambda: fluid.layers.cosine_decay(0.1, 2, 6),
    ),
    "noam": (lambda: dygraph.NoamDecay(64, 4), lambda: fluid.layers.noam_decay(64, 4)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_give_what_their_layers_give(name: str) -> None:
    now, layer = SCHEDULES[name]
    with dygraph.guard():
        schedule = now()
        found = [float(schedule()) for _ in range(8)]
        same = layer()  # an object here, too
        assert [float(same()) for _ in range(8)] == found
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        rate = layer()
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        wanted = [float(exe.run(main, fetch_list=[rate])[0]) for _ in range(8)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_step_is_a_variable_where_fluid_computes_one(name: str) -> None:
    """Parakeet writes `optimizer._learning_rate.step().numpy()[0]` to its log."""
    with dygraph.guard():
        schedule = SCHEDULES[name][0]()
        for _ in range(4):
            rate = schedule.step()
            if name != "piecewise":
                assert rate.shape == [1]
                rate = rate.numpy()[0]
            assert np.float32(rate) == np.float32(float(schedule()))


def test_a_users_step_counts() -> None:
    class Halved(dygraph.ExponentialDecay):
        def step(self):
            return super().step() / 2

    with dygraph.guard():
        half, whole = Halved(0.1, 3, 0.5), dygraph.ExponentialDecay(0.1, 3, 0.5)
        parameter = dygraph.Linear(1, 1).weight
        optimizer = fluid.optimizer.SGD(half, parameter_list=[parameter])
        assert optimizer.current_step_lr() == pytest.approx(whole.step().item() / 2)
        for _ in range(4):
            assert float(half()) == pytest.approx(float(whole()) / 2)


PLAIN = {
    "plateau": lambda: dygraph.ReduceLROnPlateau(0.1),
    "epochs": lambda: dygraph.StepDecay(0.1, 3),
    "warmup": lambda: dygraph.LinearLrWarmup(dygraph.NoamDecay(64, 4), 2, 0.1, 0.2),
}


@pytest.mark.parametrize("name", [*SCHEDULES, *PLAIN])
def test_a_call_gives_a_variable(name: str) -> None:
    """Scripts write `schedule().numpy()[0]` to their logs."""
    with dygraph.guard():
        schedule = PLAIN[name]() if name in PLAIN else SCHEDULES[name][0]()
        for _ in range(4):
            rate = schedule()
            assert rate.shape == [1]
            assert rate.numpy().dtype == np.float32


def _warming(steps: int, path: Path | None = None, until: Path | None = None) -> list[float]:
    """The rates of some steps. path: what was saved is loaded first. until: what is saved then."""
    layer = dygraph.Linear(2, 1)
    falling = dygraph.PolynomialDecay(0.5, 20, 0.0, begin=0)
    schedule = dygraph.LinearLrWarmup(falling, 3, 0.0, 0.5, begin=0)
    optimizer = fluid.optimizer.Adam(schedule, parameter_list=layer.parameters())
    if path is not None:
        optimizer.set_dict(dygraph.load_dygraph(str(path))[1])
    rates = []
    for _ in range(steps):
        loss = fluid.layers.reduce_sum(layer(dygraph.to_variable(np.ones((1, 2), "float32"))))
        loss.backward()
        optimizer.minimize(loss)
        layer.clear_gradients()
        rates.append(optimizer.current_step_lr())
    if until is not None:
        dygraph.save_dygraph(optimizer.state_dict(), str(until))
    return rates


@pytest.mark.parametrize("before", [2, 7])
def test_a_warmup_goes_on_with_the_schedule_that_follows(before: int, tmp_path: Path) -> None:
    """After as many steps in another process, while it warms up and when it has."""
    with dygraph.guard():
        alone = _warming(12)
        with unique_name.guard():
            first = _warming(before, until=tmp_path / "model")
        with unique_name.guard():
            second = _warming(12 - before, tmp_path / "model")
    assert first + second == alone
    assert len(set(alone)) == 12


def test_a_warmup_without_the_state_of_what_follows_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As a state has it that an earlier release wrote."""
    with dygraph.guard():
        falling = dygraph.PolynomialDecay(0.5, 20, 0.0)
        schedule = dygraph.LinearLrWarmup(falling, 3, 0.0, 0.5)
        schedule.set_dict({"step_num": 7})
        assert (schedule.step_num, falling.step_num) == (7, 0)
        assert "nothing of the PolynomialDecay that follows it" in caplog.text
        caplog.clear()
        plain = dygraph.LinearLrWarmup(0.1, 3, 0.0, 0.5)
        plain.set_dict({"step_num": 7})
        assert plain.state_dict() == {"step_num": 7}
        assert not caplog.text
