"""From a script to an outcome: gate, diagnosis, search, proof."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from refluid.engine.choices import Choices
from refluid.measure.ceilings import Ceilings, copy_rate, matrix_rate
from refluid.tune.bench import Sessions
from refluid.tune.diagnosis import diagnose
from refluid.tune.doctor.host import read_host
from refluid.tune.doctor.load import measure_load
from refluid.tune.evidence import Diagnosis, Evidence
from refluid.tune.journal import Journal, journal_of
from refluid.tune.learned import Learned, MachineRates
from refluid.tune.profile import profile_of
from refluid.tune.ratios import Compared
from refluid.tune.search import BlockFailed, Search, Tried
from refluid.tune.session import Script
from refluid.tune.space import (
    SPACE,
    Exactness,
    Proposal,
    TunableKnob,
    applicable,
    proposals,
)
from refluid.tune.trainers import AtGate
from refluid.tune.worth import Situation, loads

# Of the budget, for the last proof.
_PROOF = 0.15
# Seconds in which the load by others is measured; nothing that is tried holds so many times more.
_LOOK, _ROOM = 0.3, 4
_CPU = torch.device("cpu")


@dataclass
class TuningOutcome:
    """What tuning found. best: nothing where the default is as fast. proof: best beside default."""

    script: Script
    seen: Evidence
    diagnosis: Diagnosis
    tried: list[Tried] = field(default_factory=list)
    best: Choices = field(default_factory=Choices)
    proof: Compared | None = None
    left: int = 0
    seconds: float = 0.0
    interrupted: bool = False


def tune(
    script: Script,
    budget: float,
    tell: Callable[[str], None],
    learned: Learned,
    *,
    limit: int = 0,
    tolerance: float | None = None,
    space: Sequence[TunableKnob] = SPACE,
) -> TuningOutcome:
    """Tunes for about so many seconds. limit: bytes that a step may hold; 0: what is free now.

    Ctrl-C ends the search; what it found until then is the outcome. NoLoop where there is nothing
    to tune.
    """
    start = time.monotonic()
    sessions = Sessions(replace(script, kept=script.kept or learned.compiled()), tell)
    try:
        seen = _within(limit, seen_by(sessions.default(), tell, learned))
        outcome = TuningOutcome(script, seen, diagnose(seen))
        tell(f"bound by {outcome.diagnosis.bound.value}")
        most = limit or seen.host.available
        roomy = seen.life.resident + _ROOM * seen.profile.peak < most
        spread = 0.0 if seen.life.kind.is_exact else Exactness.PRECISION.value
        now = Situation(seen, outcome.diagnosis)
        reserve, end = _PROOF * budget, start + budget
        search = Search(sessions, end, most, tolerance, roomy, spread, loads(now), reserve)
        planned = proposals(now, learned.gains(), space)
        processes = f"{script.trainers} {script.servers}"
        machine = f"{learned.machine} {limit} {tolerance} {processes}"
        journal = journal_of(script.command, script.text, learned.folder, machine)
        # What is planned differs a little from one diagnosis to the next.
        before = journal.before(applicable(now, space))
        _search(search, outcome, planned, before, learned, journal, tell)
    finally:
        sessions.close()
    outcome.seconds = time.monotonic() - start
    return outcome


def _search(
    search: Search,
    outcome: TuningOutcome,
    planned: Sequence[Proposal],
    before: Sequence[Tried],
    learned: Learned,
    journal: Journal,
    tell: Callable[[str], None],
) -> None:
    tell(f"{len(planned)} settings may help")
    if before:
        tell(f"{len(before)} trials of a tuning that was ended are known; it goes on")
    try:
        for number, one in enumerate(search.run(Choices(), planned, before), len(before) + 1):
            found = "" if one.found is None else f" {one.found.ratio:.2f}"
            tell(f"trial {number}: {one.proposal.key}:{found} {one.why}")
            learned.note(one)
            journal.note(one)
        tell("the best beside the default, once more")
        outcome.proof = search.proven()
        journal.end()
    except KeyboardInterrupt:
        outcome.interrupted = True
    except BlockFailed as error:
        tell(f"the proof failed, so nothing is chosen: {error}")
        search.best = Choices()
        journal.end()
    if outcome.proof is None:  # what wasn't proven isn't chosen
        search.best = Choices()
    outcome.tried, outcome.best = search.tried, search.best
    outcome.left = len({one.key for one in planned} - {one.proposal.key for one in search.tried})


def _within(limit: int, seen: Evidence) -> Evidence:
    """With that limit of memory, if there is one, as if the machine had no more."""
    return replace(seen, host=replace(seen.host, limit=limit)) if limit else seen


def seen_by(
    session: AtGate, tell: Callable[[str], None], learned: Learned | None = None
) -> Evidence:
    """What a script at its gate, and the machine, tell. TrialFailed where it can't be profiled."""
    tell(f"a loop of {session.life.period * 1e3:.3g} ms a step was recognised; its operators")
    life, found = session.life, session.ask("profile")
    profile = profile_of(found)
    tell("the machine's ceilings")
    rates = learned.ceilings(_measured_rates) if learned else _measured_rates()
    ceilings, half = Ceilings(rates.full, rates.copied), rates.half / rates.full
    load = measure_load(_LOOK)
    lives = tuple(session.lives)
    return Evidence(life, profile, ceilings, half, read_host(), load, profile.flags, lives)


def _measured_rates() -> MachineRates:
    full, half = (matrix_rate(_CPU, dtype, _computing) for dtype in (torch.float32, torch.bfloat16))
    return MachineRates(full, half, copy_rate(_CPU))


def _computing() -> float:
    """Seconds in which this process computes, by all threads: others' work isn't in them."""
    return time.process_time() / torch.get_num_threads()
