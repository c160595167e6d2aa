"""The search finds what is faster, refuses what isn't, and keeps to time, memory and losses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from refluid.engine.choices import NONE, Choices
from refluid.engine.knobs import KnobScope
from refluid.tune.journal import Journal
from refluid.tune.learned import Learned, MachineRates
from refluid.tune.ratios import TimedBlock
from refluid.tune.space import SPACE, Exactness, Proposal, TrialKind, TunableKnob
from tests.tune.benches import FLAG, Machine, kept, proposal, search
from tests.tune.test_doctor import WELL


@pytest.mark.parametrize("seed", range(20))
def test_what_is_faster_is_kept_and_what_isnt_is_not(seed: int) -> None:
    machine = Machine({"fast": 0.8, "faster": 0.9, "slow": 1.2, "same": 1.0}, seed=seed)
    found = search(machine)
    list(found.run(NONE, [proposal(name) for name in ("slow", "fast", "same", "faster")]))
    assert kept(found) == {"fast", "faster"}
    assert [one.why for one in found.tried][:2] == ["slower", "faster"]
    proof = found.proven()
    assert proof is not None and proof.low <= proof.ratio <= proof.high < 1
    assert proof.ratio == pytest.approx(0.72, rel=0.05)


@pytest.mark.parametrize("seed", range(30))
def test_noise_is_no_gain(seed: int) -> None:
    machine = Machine({}, noise=0.08, seed=seed)
    found = search(machine)
    list(found.run(NONE, [proposal(f"same{number}") for number in range(8)]))
    found.proven()
    assert not found.best


def test_a_gain_that_the_proof_denies_is_dropped() -> None:
    machine = Machine({"fast": 0.8})
    found = search(machine)
    list(found.run(NONE, [proposal("fast")]))
    assert kept(found) == {"fast"}
    machine.factors["fast"] = 1.05
    proof = found.proven()
    assert proof is not None and proof.ratio > 1 and not found.best


def test_where_steps_wait_for_readers_all_is_tried_as_the_loop_goes_on() -> None:
    """There the window's figures are wrong: it has no reader that takes a core."""

    class Reading(Machine):
        asked: set[bool]

        def block(
            self,
            choices: Choices,
            steps: int,
            *,
            live: bool = False,
            memory: bool = False,
            within: float = math.inf,
        ) -> TimedBlock:
            self.asked.add(live)
            found = super().block(choices, steps, live=live, memory=memory)
            alone = "crowded" in choices.of(FLAG) and not live
            return replace(found, seconds=2 * found.seconds if alone else found.seconds)

    for live, best in ((True, {"crowded"}), (False, set())):
        machine = Reading({"crowded": 0.7, "wrong": 0.7}, losses={"wrong": 0.1})
        machine.asked = set()
        found = search(machine, live=live)
        list(found.run(NONE, [proposal("crowded"), proposal("wrong", trial=TrialKind.WINDOW)]))
        found.proven()
        # Losses are compared by the window in any case.
        assert kept(found) == best and machine.asked == ({True, False} if live else {False})


def test_hopeless_choices_take_two_rounds() -> None:
    machine = Machine({"slow": 3.0})
    list(search(machine).run(NONE, [proposal("slow")]))
    assert machine.blocks == 1 + 2 * 2


@pytest.mark.parametrize("seconds", [40.0, 400.0])
def test_what_takes_longer_than_the_time_is_given_up(seconds: float) -> None:
    machine = Machine({"fast": 0.8, "compiled": 0.5}, prepares={"compiled": 300.0})
    found = search(machine, seconds=seconds, reserve=6.0)
    made = list(found.run(NONE, [proposal("fast"), proposal("compiled"), proposal("other")]))
    if seconds < 300:
        assert [one.proposal.row.name for one in made] == ["fast"] == list(kept(found))
        assert seconds - 6.0 < machine.now < seconds
    else:
        assert kept(found) == {"fast", "compiled"}
    assert found.proven() and kept(found)


def test_losses_decide() -> None:
    machine = Machine({"a": 0.5, "b": 0.5, "c": 0.5}, losses={"a": 0.01, "b": 0.01, "c": math.nan})
    found = search(machine)
    proposals = [
        proposal("a"),
        proposal("b", numbers=Exactness.PRECISION),
        proposal("c", numbers=Exactness.PRECISION),
    ]
    list(found.run(NONE, proposals))
    assert kept(found) == {"b"}
    assert "losses differ" in found.tried[0].why and "losses differ" in found.tried[2].why
    strict = search(Machine({"b": 0.5}, losses={"b": 0.01}), tolerance=1e-4)
    list(strict.run(NONE, proposals[1:2]))
    assert not kept(strict)


def test_rounding_in_half_precision_is_as_large_in_what_follows() -> None:
    machine = Machine({"half": 0.8, "other": 0.8}, losses={"half": 0.01, "other": 0.01})
    found = search(machine)
    planned = [proposal("half", numbers=Exactness.PRECISION), proposal("other")]
    list(found.run(NONE, planned))
    assert kept(found) == {"half", "other"} and found.proven()
    assert kept(found) == {"half", "other"}
    machine.losses["other"] = 0.1  # together they are off by too much
    found.proven()
    assert not found.best


def test_memory_decides() -> None:
    machine = Machine({"a": 0.5, "b": 0.6}, peaks={"a": 5000, "b": 900})
    found = search(machine, limit=1000)
    list(found.run(NONE, [proposal("a"), proposal("b")]))
    assert kept(found) == {"b"} and "more than the limit" in found.tried[0].why


def test_a_choice_that_fails_is_told() -> None:
    machine = Machine({"a": 0.5}, fails="b")
    found = search(machine)
    list(found.run(NONE, [proposal("b"), proposal("a")]))
    assert kept(found) == {"a"} and found.tried[0].why == "can't be run: it ended"


def test_the_time_is_kept() -> None:
    machine = Machine({})
    found = search(machine, seconds=5.0)
    list(found.run(NONE, [proposal(f"x{number}") for number in range(100)]))
    assert 0 < len(found.tried) < 100 and machine.now < 8


def test_what_was_learned_is_kept_for_the_machine(tmp_path: Path) -> None:
    machine = Machine({"a": 0.5, "b": 1.5})
    found, learned = search(machine), Learned(WELL, tmp_path)
    for one in found.run(NONE, [proposal("a"), proposal("b")]):
        learned.note(one)
    again = Learned(WELL, tmp_path).gains()
    assert again["a = 1"] == pytest.approx(0.5, abs=0.05) and again["b = 1"] == 0.01
    assert not Learned(replace(WELL, cores=99), tmp_path).gains()
    next(tmp_path.iterdir()).write_text("{broken")
    assert not Learned(WELL, tmp_path).gains()


@pytest.mark.parametrize("done", range(4))
def test_a_search_that_was_ended_goes_on(done: int, tmp_path: Path) -> None:
    factors = {"a": 0.8, "b": 1.5, "c": 0.7}
    planned = [proposal(name) for name in "abc"]
    whole = search(Machine(factors))
    list(whole.run(NONE, planned))

    first, journal = search(Machine(factors)), Journal(tmp_path / "begun.json", "this")
    for _, one in zip(range(done), first.run(NONE, planned), strict=False):
        journal.note(one)
    again = Journal(tmp_path / "begun.json", "this")
    before = again.before(planned[::-1])  # by now something else seems to promise most
    assert [one.proposal.key for one in before] == ["a = 1", "b = 1", "c = 1"][:done]
    machine = Machine(factors)
    second = search(machine)
    for one in second.run(NONE, planned[::-1], before):
        again.note(one)
    assert kept(second) == kept(whole) == {"a", "c"}
    assert len(second.tried) == 3 and (machine.blocks == 0) is (done == 3)
    assert len(Journal(tmp_path / "begun.json", "this").before(planned)) == 3
    assert not Journal(tmp_path / "begun.json", "other").before(planned)
    again.end()
    assert not Journal(tmp_path / "begun.json", "this").before(planned)


def test_what_takes_too_long_gives_way_to_what_does_not() -> None:
    machine = Machine({"long": 0.5, "short": 0.8})
    found = search(machine, seconds=30.0)
    list(found.run(NONE, [proposal("long", seconds=60.0), proposal("short")]))
    assert kept(found) == {"short"}


def test_what_gained_nothing_is_tried_again_on_compiled_steps() -> None:
    factors = {"compiled": 0.8, "half+compiled": 0.7, "poor": 1.05, "chosen": 0.9}
    machine = Machine(factors, noise=0.002)
    found = search(machine, seconds=1e4)
    names = ["half", "poor", "chosen", "same"]
    planned = [*map(proposal, names), proposal("compiled", seconds=8.0, compiles=True)]
    tried = [one.proposal.row.name for one in found.run(NONE, planned)]
    assert tried[:5] == [*names, "compiled"]
    assert set(tried[5:]) == {"half", "same"}  # not what was slower, or is chosen already
    assert kept(found) == {"compiled", "half", "chosen"}


def test_ceilings_are_measured_by_the_first_tunings_alone(tmp_path: Path) -> None:
    count = itertools.count(1)
    rate = MachineRates(10.0, 0.0, 0.0)

    def measured() -> MachineRates:
        return replace(rate, full=10.0 - next(count), copied=5.0)

    found = [Learned(WELL, tmp_path).ceilings(measured) for _ in range(4)]
    assert {one.full for one in found} == {9.0} and next(count) == 3
    for path in tmp_path.glob("ceilings-*"):
        path.write_text("no JSON")
    assert Learned(WELL, tmp_path).ceilings(measured).full == 6.0


def test_rows_of_the_space_can_be_written_in_a_file() -> None:
    from refluid.engine.strategy_file import SECTIONS, known

    assert {row.scope for row in SPACE} <= set(SECTIONS.values())
    for row in SPACE:
        assert row.name in known(row.scope), row.name
    live: Callable[[TunableKnob], bool] = lambda row: row.trial is TrialKind.LIVE  # noqa: E731
    assert {row.scope for row in SPACE if live(row)} == {
        KnobScope.READER, KnobScope.LOADER, KnobScope.DATASET, KnobScope.FLAG,
    }  # fmt: skip


def test_what_can_be_chosen_beside_others_joins_them() -> None:
    row = next(one for one in SPACE if one.joined)
    conv, mul = (Proposal(row, one) for one in ("conv2d", "mul"))
    assert mul.on(conv.on(NONE)).of(FLAG)[row.name] == "conv2d,mul"
    assert conv.on(conv.on(NONE)) == conv.on(NONE) and conv.side != mul.side
    one, other = proposal("threads", 1), proposal("threads", 2)
    assert other.on(one.on(NONE)).of(FLAG)["threads"] == 2 and one.side == other.side
