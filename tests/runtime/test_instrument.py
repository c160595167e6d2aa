"""Watched plans: what they note, what they refuse, and that all others have no such lines."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from refluid import fluid
from refluid.core import events, flags
from refluid.core.errors import EnforceNotMet
from refluid.core.events import EventKind
from refluid.runtime import meter
from refluid.runtime.footprint import planned_peak
from refluid.runtime.instrument import instruments
from refluid.runtime.plan import Plan
from refluid.runtime.request import UNWATCHED, Instruments, Request
from refluid.runtime.watched import Watched
from tests.fluid.small_net import INNER, ROWS, WIDTH, Net


@pytest.fixture
def log() -> Iterator[events.Log]:
    found = events.Log(memory=True)
    events.keep(found)
    yield found
    events.keep(None)


def test_a_plan_without_instruments_has_no_lines_for_them() -> None:
    net = Net()
    request = Request(net.main.global_block(), ("x",), (net.loss.name,), fluid.CPUPlace().device)
    assert request.instruments is UNWATCHED is instruments()
    assert "watch" not in Plan(request).text


def test_a_watched_plan_says_before_and_after() -> None:
    net = Net()
    device = fluid.CPUPlace().device
    wanted = Instruments(time=True)
    plan = Plan(Request(net.main.global_block(), ("x",), (), device, instruments=wanted))
    lines = [line.strip() for line in plan.text.splitlines()]
    position = lines.index("watch.before(0)")
    assert lines[position + 1].startswith("v") and " = mul(" in lines[position + 1]
    assert lines[position + 2].startswith("watch.after(0, v")


def test_every_operator_is_an_event(log: events.Log) -> None:
    net = Net()
    log.clear()
    net.run()
    names = [event.name for event in log.events]
    assert names[:3] == ["mul", "relu", "square"]
    assert names[-1] == "momentum"
    assert {event.kind for event in log.events} == {EventKind.OPERATOR}
    assert {event.depth for event in log.events} == {0}
    ends = [0, *(event.end for event in log.events)]
    for event, former in zip(log.events, ends, strict=False):
        assert former <= event.start <= event.end
        assert event.preparation >= 0
    first = log.events[0].about
    assert isinstance(first, Watched)
    assert (first.layer, first.result) == ("mul_0", "mul_0.tmp_0")
    assert first.line.startswith("small_net.py:")
    assert "relu(fluid.layers.mul(x, w))" in first.line
    layers = {one.name: one.about.layer for one in log.events}
    assert (layers["mul_grad"], layers["momentum"]) == ("mul_0", "w")
    assert all(one.about.line for one in log.events)


def test_operators_of_a_loop_are_inside_it(log: events.Log) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        number = fluid.layers.fill_constant([1], "int64", 0)
        end = fluid.layers.fill_constant([1], "int64", 3)
        (last,) = fluid.layers.while_loop(lambda i: i < end, lambda i: [i + 1], [number])
    (found,) = fluid.Executor().run(main, fetch_list=[last])
    assert found.tolist() == [3]
    loop = next(event for event in log.events if event.name == "while")
    inside = [event for event in log.events if event.depth == 1]
    assert len(inside) >= 6
    assert all(loop.start <= event.start and event.end <= loop.end for event in inside)


def test_memory_of_values_is_noted(log: events.Log) -> None:
    net = Net()
    log.clear()
    net.run()
    sizes = [one.size for one in log.allocations if one.made_by == "mul"]
    assert sizes[0] == ROWS * WIDTH * 4
    assert any(one.end is not None and one.freed_by for one in log.allocations)


@pytest.mark.parametrize("flag", ["FLAGS_check_nan_inf", "FLAGS_fast_check_nan_inf"])
def test_what_is_not_finite_is_named(flag: str) -> None:
    net = Net()
    assert np.isinf(net.run(0.0))
    with flags.override({flag: True}):
        assert np.isfinite(net.run(1.0))
        with pytest.raises(EnforceNotMet) as caught:
            net.run(0.0)
    message = str(caught.value)
    assert "operator log failed: its output log_0.tmp_0 contains NaN or infinity" in message
    assert "small_net.py" in message
    assert "fluid.layers.log(" in message
    assert np.isinf(net.run(0.0))


def test_how_much_of_the_call_stack_is_shown() -> None:
    net = Net()
    messages = []
    for level in (0, 1, 2):
        with flags.override({"FLAGS_check_nan_inf": True, "FLAGS_call_stack_level": level}):
            with pytest.raises(EnforceNotMet) as caught:
                net.run(0.0)
            messages.append(str(caught.value))
    assert [("It was made here" in m, "It failed here" in m) for m in messages] == [
        (False, False),
        (True, False),
        (True, True),
    ]


def test_the_meter_counts_memory_and_arithmetic() -> None:
    net = Net()
    net.run()
    one = meter.Meter(run=2)
    meter.arm(one)
    try:
        for _ in range(3):
            net.run()
    finally:
        meter.arm(None)
    (step,) = one.steps
    first = step.work[0]
    assert step.watched[0].name == "mul"
    assert first.flops == 2 * ROWS * INNER * WIDTH
    assert first.moved == 4 * (ROWS * INNER + INNER * WIDTH + ROWS * WIDTH)
    state = sum(held.size for held in step.held if held.operator == meter.STATE)
    assert state == 4 * (2 * INNER * WIDTH + 1)  # w, its velocity, the learning rate
    assert step.peak == sum(held.size for held in step.at_peak()) > state
    assert {held.name for held in step.at_peak()} >= {"w", "w_velocity_0", "x"}


def test_the_planned_peak_is_near_the_measured_one() -> None:
    net = Net()
    meter.arm(one := meter.Meter())
    try:
        net.run()
    finally:
        meter.arm(None)
    (step,) = one.steps
    planned = planned_peak(step.request, step.fed)
    assert 0.8 * step.peak <= planned.peak <= 1.25 * step.peak
    wider = planned_peak(step.request, {"x": (ROWS * 64, INNER)})
    assert wider.peak > 8 * (planned.peak - planned.state)
