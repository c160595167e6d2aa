"""Learning rates that change: their numbers, and in programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid import fluid
from refluid.paddle import optimizer as two
from refluid.paddle import static
from refluid.paddle.optimizer import lr
from tests.paddle.two import networks


def test_a_program_follows_its_schedule() -> None:
    """Each run takes the rate that the schedule has by then, and only then."""
    rates = [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]
    schedule = lr.PiecewiseDecay([2, 4], [0.1, 0.01, 0.001])
    found = networks.losses(
        networks.of_paddle, lambda: two.Momentum(schedule), lambda _exe: schedule.step()
    )
    assert found == _by_hand(rates)


def _by_hand(rates: list[float]) -> list[Any]:
    """The same with a rate that is fed."""
    with networks.fresh() as (main, startup):
        loss = networks.of_fluid()
        rate = fluid.data("rate", [1], "float32")
        fluid.optimizer.Momentum(rate, 0.9).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        return [
            exe.run(main, feed=batch | {"rate": np.array([one], "float32")}, fetch_list=[loss])[0]
            for batch, one in zip(networks.batches(), rates, strict=True)
        ]


def test_replicas_follow_the_schedule() -> None:
    """Compiled for two places, one of whose programs has a scope of its own."""
    found = []
    for compiled in (False, True):
        with networks.fresh() as (main, startup):
            loss = networks.of_paddle()
            schedule = lr.StepDecay(0.1, 2, 0.1)
            two.SGD(schedule).minimize(loss)
            exe = static.Executor("cpu")
            exe.run(startup)
            program: Any = main
            if compiled:
                places = static.cpu_places(2)
                program = static.CompiledProgram(main).with_data_parallel(loss.name, places=places)
            rates = []
            for batch in networks.batches():
                fetched = exe.run(program, feed=batch, fetch_list=["learning_rate_0"])
                rates.append(np.asarray(fetched[0]).tolist())
                schedule.step()
        found.append(rates)
    assert [one * 2 for one in found[0]] == found[1]


def test_a_clone_follows_the_schedule() -> None:
    with networks.fresh() as (main, startup):
        schedule = lr.ExponentialDecay(0.5, 0.5)
        two.SGD(schedule).minimize(networks.of_paddle())
        exe = static.Executor("cpu")
        exe.run(startup)
        schedule.step()
        rate = exe.run(main.clone(), networks.batches(1)[0], ["learning_rate_0"])[0]
    assert float(rate) == 0.25


def test_states_go_on() -> None:
    schedule = lr.LinearWarmup(lr.StepDecay(0.1, 3), 4, 0.0, 0.1)
    for _ in range(6):
        schedule.step()
    other = lr.LinearWarmup(lr.StepDecay(0.1, 3), 4, 0.0, 0.1)
    other.set_state_dict(schedule.state_dict())
    rates = []
    for one in (schedule, other):
        rates.append([])
        for _ in range(5):
            one.step()
            rates[-1].append(one())
    assert rates[0] == rates[1]
