"""Trials in pairs, A B B A, until it is clear which is faster; what is faster is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from refluid.engine.choices import Choices
from refluid.tune.ratios import WORTH, Compared, TimedBlock, compared, is_clear
from refluid.tune.space import Proposal, TrialKind, TunableKnob

# A block of steps takes about so long, and has so many at least and at most; the first ones, of
# which losses are compared, have more.
_BLOCK, _STEPS, _MOST_STEPS, _FIRST = 0.1, 2, 400, 8
# Rounds of a trial at most, of the proof, at most of that, and at least where the time is up.
_ROUNDS, _LAST_ROUNDS, _MOST_ROUNDS, _FEWEST = 9, 9, 15, 5
# What takes less than so many times as long may be worth it beside another choice.
_NEARLY = 1.03
# A trial that isn't done so many seconds after the time for trials is given up: what runs it has to
# be started anew for the proof.
_GRACE = 5.0


class Bench(Protocol):
    """Runs blocks of steps of the script."""

    def block(
        self,
        choices: Choices,
        steps: int,
        *,
        live: bool = False,
        memory: bool = False,
        within: float = math.inf,
    ) -> TimedBlock:
        """Steps with these choices; live: as the loop goes on, not on the window. BlockFailed where
        they can't be run, or take more than so many seconds."""


class BlockFailed(Exception):
    """A side can't be run; why."""


@dataclass(frozen=True)
class Tried:
    """A proposal and what became of it. before: what it was compared with."""

    proposal: Proposal
    found: Compared | None
    kept: bool
    why: str
    before: Choices


def _ratio(one: Tried) -> float:
    return one.found.ratio if one.found else math.inf


@dataclass
class Search:
    """What was tried so far. limit: bytes that a step may hold; 0: any. tolerance: of losses, over
    that which a knob states; None: as knobs state. roomy: whether the limit is so far away that
    only the proof need measure memory, which takes a second in each process. spread: by how much
    losses of a process started anew differ. live: whether all is tried as the loop goes on, since
    its readers take time of what computes. deadline: when all is to be proven. reserve: of that,
    seconds for the proof, or as many as the longest trial of what is kept took."""

    bench: Bench
    deadline: float
    limit: int = 0
    tolerance: float | None = None
    roomy: bool = False
    spread: float = 0.0
    live: bool = False
    reserve: float = 0.0
    clock: Callable[[], float] = time.monotonic
    best: Choices = field(default_factory=Choices)
    tried: list[Tried] = field(default_factory=list)
    _longest: dict[tuple[TrialKind, bool], float] = field(default_factory=dict)
    _known_steps: dict[tuple[str, bool], int] = field(default_factory=dict)

    def run(
        self, base: Choices, proposals: Iterable[Proposal], before: Sequence[Tried] = ()
    ) -> Iterator[Tried]:
        """Tries one after the other; each that helps is kept for the next. Ends at the deadline.

        before: what an earlier search found, in its order; it isn't measured again.
        """
        self.best = base
        for result in before:
            self.tried.append(result)
            if result.kept:
                self.best = result.proposal.on(self.best)
        known = {one.proposal.key for one in before}
        yield from self._tried_of(one for one in proposals if one.key not in known)
        yield from self._tried_of(self._other_steps())

    def _tried_of(self, proposals: Iterable[Proposal]) -> Iterator[Tried]:
        for one in proposals:
            begun = self.clock()
            if begun > self._until:
                return
            if begun + self._expected(one.row) > self._until:
                continue  # a shorter one may still be possible
            result = self._try(one, self.best)
            if result is None:
                return
            self.tried.append(result)
            self._note(one.row, self.clock() - begun, kept=result.kept)
            if result.kept:
                self.best = one.on(self.best)
            yield result

    @property
    def _until(self) -> float:
        """When trials end."""
        return self.deadline - self.reserve

    def _expected(self, row: TunableKnob) -> float:
        """Seconds that a trial takes: as its row says, or the longest one of its kind so far."""
        longest = self._longest.get((row.trial, row.compiles), 0.0)
        return max(longest, row.seconds + self._compiling())

    def _note(self, row: TunableKnob, seconds: float, *, kept: bool) -> None:
        kind = row.trial, row.compiles
        self._longest[kind] = max(self._longest.get(kind, 0.0), seconds)
        if kept:
            self.reserve = max(self.reserve, seconds)

    def _compiling(self) -> float:
        """Seconds that each trial takes more on top of what was kept."""
        kept = (one.proposal.row for one in self.tried if one.kept)
        return sum(row.seconds for row in kept if row.compiles)

    def _other_steps(self) -> Iterator[Proposal]:
        """What gained nothing before steps were compiled, and nearly as much as nothing: now they
        are other steps, of which it may be another part."""
        last = {one.proposal.key: one for one in self.tried}
        chosen = {one.proposal.side for one in self.tried if one.kept}
        for number, made in enumerate(self.tried):
            if not (made.kept and made.proposal.row.compiles):
                continue
            for one in sorted(self.tried[:number], key=_ratio):
                again = last[one.proposal.key] is one and one.proposal.side not in chosen
                if again and _ratio(one) < _NEARLY:
                    yield one.proposal

    def _try(self, one: Proposal, base: Choices) -> Tried | None:
        """None where it wasn't done when the time was up."""
        live = self.live or one.row.trial is TrialKind.LIVE
        try:
            again = live and one.row.trial is TrialKind.WINDOW
            found = self.compare(base, one.on(base), _ROUNDS, live=live, again=again)
        except BlockFailed as error:
            if self.clock() > self._until:
                return None
            return Tried(one, None, False, f"can't be run: {error}", base)
        return Tried(one, found, *self._judged(one, found), base)

    def _judged(self, one: Proposal, found: Compared) -> tuple[bool, str]:
        """Whether it is kept, and why."""
        most = self._tolerance(one)
        if not found.off <= most:
            return False, f"losses differ by {found.off:.2g}, more than {most:g}"
        if found.spares_memory(self.limit):
            return True, "holds less memory"
        if self.limit and found.peak > self.limit:
            return False, f"a step holds {found.peak / 1e6:.4g} MB, more than the limit"
        if found.is_faster:
            return True, "faster"
        return False, "slower" if found.low > 1.0 else "no clear gain"

    def _tolerance(self, *more: Proposal) -> float:
        """Of losses: what rounds in half precision differs by as much in all that follows."""
        kept = [one.proposal for one in self.tried if one.kept]
        stated = max((one.row.numbers.value for one in (*kept, *more)), default=0.0)
        stated = max(stated, self.spread)
        return stated if self.tolerance is None else self.tolerance

    def proven(self) -> Compared | None:
        """The best beside the default, once more; the default is best where it isn't faster."""
        if not self.best:
            return None
        trials = {one.proposal.row.trial for one in self.tried if one.kept}
        live = self.live or TrialKind.LIVE in trials
        again = live and trials == {TrialKind.WINDOW}
        found = self.compare(
            Choices(), self.best, _LAST_ROUNDS, live=live, patient=True, again=again
        )
        gains = found.is_faster or found.spares_memory(self.limit)
        if not gains or not found.off <= self._tolerance():
            self.best = Choices()
        return found

    def compare(
        self,
        one: Choices,
        other: Choices,
        rounds: int,
        *,
        live: bool = False,
        patient: bool = False,
        again: bool = False,
    ) -> Compared:
        """Rounds of a block each, in turns, until it is clear. patient: to the last one, and to
        half as many more where a disturbed machine hides a gain, while there is time. again: losses
        are those of a window, run again by both; else of the loop, from its begin."""
        steps = self._steps(one, live=live)
        firsts: list[TimedBlock] = []
        seconds: list[TimedBlock] = []
        for number in range(_MOST_ROUNDS if patient else rounds):
            count = max(steps, _FIRST) if number == 0 else steps
            pair = [(one, firsts), (other, seconds)]
            memory = number == 0 and (patient or not self.roomy)
            for choices, blocks in pair if number % 2 == 0 else reversed(pair):
                within = math.inf if patient else self._until + _GRACE - self.clock()
                found = self.bench.block(choices, count, live=live, memory=memory, within=within)
                blocks.append(found)
            ratios = [b.seconds / a.seconds for a, b in zip(firsts, seconds, strict=True)]
            if self._is_enough(ratios, rounds, patient=patient):
                break
        usual, changed = firsts[0], seconds[0]
        if again:
            usual, changed = self._again(one, usual), self._again(other, changed)
        return compared(ratios, usual, changed)

    def _is_enough(self, ratios: Sequence[float], rounds: int, *, patient: bool) -> bool:
        if not patient:
            return is_clear(ratios) or self.clock() > self._until
        if self.clock() > self.deadline:
            return len(ratios) >= _FEWEST
        found = compared(ratios)
        return len(ratios) >= rounds and (found.is_faster or found.ratio >= WORTH)

    def _again(self, choices: Choices, seen: TimedBlock) -> TimedBlock:
        """The losses of the same batches, where steps can be run again."""
        block = self.bench.block(choices, _FIRST)
        return replace(seen, losses=block.losses, peak=seen.peak or block.peak)

    def _steps(self, choices: Choices, *, live: bool) -> int:
        key = repr(choices), live
        if key not in self._known_steps:
            first = self.bench.block(choices, _FIRST, live=live)
            count = math.ceil(_BLOCK / max(1e-9, first.seconds))
            self._known_steps[key] = max(_STEPS, min(_MOST_STEPS, count))
        return self._known_steps[key]
