"""How many threads a plan uses, on machines that are made up."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from refluid.core.thread_choice import PACE, ThreadChoice, numbers
from tests.choices import often

HOUR = 3600.0


@dataclass
class Machine:
    """Seconds of a step, and threads that wait, by the time and the threads that the step uses."""

    step: Callable[[float, int], float]
    waiting: Callable[[float, int], float]
    now: float = 0.0
    used: list[tuple[float, int, float]] = field(default_factory=list)  # begin, threads, seconds
    ran: float = 0.0
    waited: float = 0.0

    def train(self, until: float, most: int = 2, first: int | None = None) -> ThreadChoice:
        """Steps until that time, one right after the other."""
        choice = ThreadChoice(most, self.look, first=first)
        self.go_on(choice, until)
        return choice

    def look(self) -> float:
        """Threads that waited on average in the steps since the look before; at first those of a
        start-up."""
        seconds, waited = self.ran, self.waited
        self.ran = self.waited = 0.0
        return waited / seconds if seconds else self.waiting(self.now, 2)

    def go_on(self, choice: ThreadChoice, until: float, pause: float = 0.0) -> None:
        """pause: before each step, at most."""
        while self.now < until:
            self.now += random.uniform(0, pause)
            threads = choice.begin(self.now)
            seconds = self.step(self.now, threads)
            self.used.append((self.now, threads, seconds))
            self.ran += seconds
            self.waited += self.waiting(self.now, threads) * seconds
            self.now += seconds
            choice.end(self.now, seconds)

    def steps(self, since: float = 0.0, until: float = float("inf")) -> int:
        return sum(since <= begin < until for begin, _, _ in self.used)

    def share(self, threads: int, since: float = 0.0, until: float = float("inf")) -> float:
        """Of the time, what was spent in steps by so many threads."""
        spent = {True: 0.0, False: 0.0}
        for begin, used, seconds in self.used:
            if since <= begin < until:
                spent[used == threads] += seconds
        return spent[True] / sum(spent.values())

    @property
    def changes(self) -> int:
        return sum(a[1] != b[1] for a, b in itertools.pairwise(self.used))


def loaded_between(start: float, end: float, slow: float = 0.25, one: float = 0.05) -> Machine:
    """Two cores; by two threads a step takes 10 ms when quiet, by one 16 ms."""

    def is_loaded(now: float) -> bool:
        return start <= now < end

    return Machine(
        lambda now, threads: (
            (0.016, 0.010)[threads - 1] if not is_loaded(now) else (one, slow)[threads - 1]
        ),
        lambda now, threads: 0.6 if is_loaded(now) else 0.005,
    )


def test_numbers_are_halves_down_to_one() -> None:
    assert numbers(2) == [2, 1]
    assert numbers(12) == [12, 6, 3, 1]
    assert numbers(16) == [16, 8, 4, 2, 1]


def test_nothing_is_tried_on_a_quiet_machine() -> None:
    machine = loaded_between(HOUR, HOUR)
    machine.train(600)
    assert machine.share(2) == 1


def test_a_few_steps_between_pauses_say_little() -> None:
    """Threads wait as they start, and after a pause until they are on cores of their own."""
    machine = Machine(lambda _, threads: (0.03, 0.018)[threads - 1], lambda *_: 0.005)
    choice = ThreadChoice(2, machine.look, first=2)
    machine.go_on(choice, 0.04)
    machine.waited += 0.036
    machine.go_on(choice, 60, pause=1.0)
    assert machine.share(2) == 1


@pytest.mark.parametrize("slow", often([0.06, 0.1, 0.25, 2.0], [0.06, 2.0]))
def test_load_comes_and_goes(slow: float) -> None:
    machine = loaded_between(60, 1260, slow)
    machine.train(2400)
    assert machine.share(2, until=60) == 1
    assert machine.share(1, 60, 1260) > 0.97
    assert machine.share(2, 1280) == 1, "all threads, and nothing tried any more"


@pytest.mark.parametrize("slow", [0.06, 0.1, 0.25, 2.0, 8.0])
def test_under_load_it_is_never_slower_than_one_thread(slow: float) -> None:
    machine = loaded_between(0, HOUR, slow)
    machine.train(HOUR)
    assert machine.share(1, until=PACE.patience) == 1, "it begins with one thread"
    assert machine.share(2) > 0, "but tries more"
    assert machine.steps() > 0.97 * HOUR / 0.05
    assert machine.steps(until=120) > 0.85 * 120 / 0.05


def test_all_threads_stay_where_they_are_faster_under_load_too() -> None:
    machine = loaded_between(60, HOUR, slow=0.04)
    machine.train(HOUR)
    assert machine.share(2) > 0.97


def test_a_plan_that_begins_under_load_takes_more_threads_where_they_are_faster() -> None:
    machine = loaded_between(0, HOUR, slow=0.04)
    assert machine.train(600).threads == 2
    assert machine.share(2, 90) > 0.97


def test_waiting_that_only_seemed_lasting_costs_little() -> None:
    machine = loaded_between(0, 1)
    machine.train(60)
    assert machine.used[0][1] == 1
    assert machine.share(2, 5) == 1


@pytest.mark.parametrize("slow", [0.06, 0.25, 1.0])
def test_load_that_ends_with_a_trial_is_soon_forgotten(slow: float) -> None:
    """Whenever that is: else one thread stays for fifty times the trial."""
    for load in range(20, 160, 3):
        machine = loaded_between(60, 60 + load / 10, slow)
        machine.train(300)
        assert machine.share(2, 120) > 0.9, load / 10


def test_where_one_thread_leaves_nobody_waiting() -> None:
    """One busy process on two cores: waiting ends when one thread is chosen."""
    machine = Machine(
        lambda now, threads: (0.016, 0.024)[threads - 1],
        lambda now, threads: 0.5 if threads == 2 else 0.0,
    )
    machine.train(HOUR)
    assert machine.share(1, 10) > 0.97
    assert machine.changes < 3 * HOUR / 100, "waiting in a trial is none after it"


def test_the_fastest_of_several_numbers_is_found() -> None:
    machine = Machine(
        lambda now, threads: {16: 0.2, 8: 0.05, 4: 0.02, 2: 0.03, 1: 0.05}[threads],
        lambda now, threads: 2.0 if now > 1 else 0.0,
    )
    assert machine.train(600, most=16).threads == 4
    assert machine.share(4, 10) > 0.95


@pytest.mark.parametrize("seed", often(range(5), range(2)))
def test_noise_does_not_make_it_oscillate(seed: int) -> None:
    noise = random.Random(seed)
    machine = Machine(
        lambda now, threads: 0.02 * noise.lognormvariate(0, 1.2),
        lambda now, threads: noise.uniform(0.15, 0.9),
    )
    choices = [machine.train(HOUR).threads]
    tried = machine.share(3 - choices[0])
    assert machine.changes < HOUR / 10
    assert 0.0 < tried < 1.0


@pytest.mark.parametrize("seed", often(range(5), range(2)))
def test_noise_does_not_hide_what_is_faster(seed: int) -> None:
    noise = random.Random(seed)
    machine = Machine(
        lambda now, threads: (0.03, 0.05)[threads - 1] * noise.lognormvariate(0, 0.8),
        lambda now, threads: noise.uniform(0.15, 0.9),
    )
    machine.train(HOUR)
    assert machine.share(1) > 0.85


def test_waiting_around_the_bounds_is_no_change() -> None:
    machine = Machine(
        lambda now, threads: (0.03, 0.09)[threads - 1],
        lambda now, threads: (0.05, 0.12)[int(now / 3) % 2],
    )
    machine.train(HOUR)
    assert machine.share(1) > 0.97


@pytest.mark.parametrize("period", often([1.0, 5.0, 30.0], [1.0, 30.0]))
def test_load_that_comes_and_goes_all_the_time_costs_little(period: float) -> None:
    def is_loaded(now: float) -> bool:
        return now % (2 * period) >= period

    def seconds(now: float, threads: int) -> float:
        return (0.05, 0.25)[threads - 1] if is_loaded(now) else (0.016, 0.010)[threads - 1]

    machine = Machine(seconds, lambda now, threads: 0.6 if is_loaded(now) else 0.0)
    machine.train(HOUR)
    one = Machine(seconds, lambda now, threads: 0.0)
    one.train(HOUR, most=1)
    assert machine.steps() > 0.95 * one.steps()


def test_a_step_that_failed_is_not_counted() -> None:
    machine = loaded_between(1, HOUR)
    choice = machine.train(1.2)
    while (tried := choice.begin(machine.now)) == 2:
        machine.go_on(choice, machine.now + 0.01)
    assert [choice.begin(machine.now) for _ in range(20)] == [tried] * 20
    machine.go_on(choice, 60)
    assert choice.threads == 1


class _Interrupted(float):
    """The seconds of a step whose comparison is interrupted."""

    def __le__(self, other: object) -> bool:
        raise KeyboardInterrupt


def test_an_interrupt_within_a_trial_ends_it_and_the_next_one_chooses() -> None:
    machine = loaded_between(1, HOUR)
    choice = machine.train(1.2)
    while choice.begin(machine.now) == 2:
        machine.go_on(choice, machine.now + 0.01)
    with pytest.raises(KeyboardInterrupt):
        choice.end(machine.now, _Interrupted(0.01))
    machine.go_on(choice, machine.now + 0.05)
    assert choice.threads == 2
    machine.go_on(choice, 120)
    assert choice.threads == 1


def test_it_waits_where_it_is_no_time_to_try() -> None:
    choice = ThreadChoice(2, lambda: None)
    for number in range(100):
        assert choice.begin(float(number)) == 2
        choice.end(number + 0.9, 0.9)


def test_a_plan_can_begin_with_what_another_found() -> None:
    machine = loaded_between(0, HOUR)
    machine.train(60, first=1)
    assert machine.share(1) > 0.95


def test_a_change_is_told() -> None:
    machine = loaded_between(1, HOUR)
    choice = machine.train(60)
    assert choice.changes == "operators use 1 instead of 2 of 2 threads"
    assert PACE.rest * PACE.block > 5
