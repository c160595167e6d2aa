"""Steps by several threads or by one: each runs once, and the faster way is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pytest

from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.runtime.either_order import EitherOrder
from tests.adapting import AS_ASKED, Clock
from tests.interrupting import interrupted_at_each_call
from tests.runtime.test_threaded import Branches

pytestmark = pytest.mark.usefixtures("adaptive_threads")


@dataclass
class _Plan:
    """A plan whose steps take so long by the clock; fails: at the steps of these numbers."""

    clock: Clock
    seconds: float
    threads: int
    ran: list[tuple[int, int]]
    fails: set[int] = field(default_factory=set)

    @property
    def request(self) -> Any:
        return mock.Mock(threads=self.threads)

    @property
    def code(self) -> Any:
        return mock.Mock(source=mock.Mock(steps=[]))

    def run(self, scope: Any, feeds: Any, lods: Any = ()) -> Any:
        number = len(self.ran)
        self.ran.append((feeds, self.threads))
        self.clock.now += self.seconds
        if number in self.fails:
            raise EnforceNotMet("it fails")
        return feeds


def _made(several: float, one: float, *fails: int) -> tuple[Any, list[tuple[int, int]]]:
    clock, ran = Clock(), list[tuple[int, int]]()
    plans: list[Any] = [
        _Plan(clock, seconds, threads, ran, set(fails))
        for seconds, threads in ((several, 4), (one, 1))
    ]
    return EitherOrder(plans[0], lambda: plans[1], clock), ran


@pytest.mark.parametrize("seed", range(20))
def test_each_step_runs_once_and_the_faster_way_is_kept(seed: int) -> None:
    random = np.random.default_rng(seed)
    several, one = (float(10 ** random.uniform(-3, 0)) for _ in range(2))
    fails = {int(number) for number in random.integers(0, 60, 4)}
    step, ran = _made(several, one, *fails)
    for number in range(1200):
        try:
            found = step.run(None, number)
        except EnforceNotMet:
            assert number in fails
        else:
            assert found == number and number not in fails
    assert [number for number, _ in ran] == list(range(1200))
    assert {threads for _, threads in ran[:1100]} == {1, 4}
    assert {threads for _, threads in ran[-20:]} == {4 if several < one else 1}


@pytest.mark.parametrize("asked", AS_ASKED)
def test_flags_leave_all_steps_to_several_threads(asked: Mapping[str, bool]) -> None:
    step, ran = _made(1.0, 0.001)
    with flags.override(asked):
        for number in range(100):
            step.run(None, number)
    assert {threads for _, threads in ran} == {4}
    for number in range(100):
        step.run(None, number)
    assert ran[-1][1] == 1
    with flags.override(asked):
        step.run(None, 0)
    assert ran[-1][1] == 4


def test_ctrl_c_at_any_call_leaves_a_choice_that_ends() -> None:
    made = [_made(1.0, 0.1)]

    def steps() -> None:
        made.append(_made(1.0, 0.1))
        for number in range(60):
            made[-1][0].run(None, number)

    for _ in interrupted_at_each_call(steps):
        step, ran = made[-1]
        for number in range(60):
            step.run(None, number)
        assert not step._inside and step._state is not None
    assert ran[-1][1] == 1


def _way(net: Branches) -> EitherOrder:
    replicated = net.program._replicated
    assert replicated is not None
    (found,) = {
        plan
        for ready in replicated.group.cache.values()
        for one in ready.steps.values()
        for plan in one.plans
    }
    assert isinstance(found, EitherOrder)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_programs_compute_the_same_whichever_way_is_taken(seed: int) -> None:
    """Batches of any sizes, the way changed by chance at each step."""
    random = np.random.default_rng(seed)
    several, plain = Branches(2), Branches(1)
    for _ in range(40):
        x = random.standard_normal((int(random.integers(1, 9)), 8)).astype("float32")
        found, expected = several.step(x), plain.step(x)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        way = _way(several)
        way._state = flags.state()
        way._plan = [way.several, way._make()][int(random.integers(2))]
