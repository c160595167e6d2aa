"""Trials in pairs, A B B A, until it is clear which is faster; what is faster is kept."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from refluid.engine.choices import Choices
from refluid.tune.space import Proposal, TrialKind

# A block of steps takes about so long, and has so many at least and at most; the first ones, of
# which losses are compared, have more.
_BLOCK, _STEPS, _MOST_STEPS, _FIRST = 0.1, 2, 400, 8
_ROUNDS, _LAST_ROUNDS, _MOST_ROUNDS = 9, 9, 15
# After two rounds, what takes so many times as long is given up.
_HOPELESS = 1.1
# What must be gained for a choice to be worth making.
_WORTH = 0.98
_ENOUGH = 3
# What takes less than so many times as long may be worth it beside another choice.
_NEARLY = 1.03
# Student's t of 98% for so many rounds, and the least deviation of ratios that is believed.
_T = {3: 6.96, 4: 4.54, 5: 3.75, 6: 3.36, 7: 3.14, 8: 3.0}
_DEVIATION = 0.008
# Losses of so many steps are compared: later ones differ by what rounding does to training.
_ALIKE = 8


@dataclass(frozen=True)
class TimedBlock:
    """Steps of one side: seconds of one, losses of all, bytes at the peak (0: not measured)."""

    seconds: float
    losses: Sequence[float] = ()
    peak: int = 0


_NOTHING = TimedBlock(0.0)


class Bench(Protocol):
    """Runs blocks of steps of the script."""

    def block(
        self, choices: Choices, steps: int, *, live: bool = False, memory: bool = False
    ) -> TimedBlock:
        """Steps with these choices; live: as the loop goes on, not on the window. Raises
        TrialFailed."""


class BlockFailed(Exception):
    """A side can't be run; why."""


@dataclass(frozen=True)
class Compared:
    """The time of steps by B over that by A: median over rounds, lowest and highest.

    off: by how much losses differ, relative. peak, losses: of B; usual: a block of A.
    """

    ratio: float
    low: float
    high: float
    off: float = 0.0
    peak: int = 0
    losses: Sequence[float] = ()
    usual: TimedBlock = _NOTHING

    @property
    def is_faster(self) -> bool:
        """Whether B is, in all rounds but one, and by enough to matter."""
        return self.ratio < _WORTH and self.high < 1.0


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
    its readers take time of what computes."""

    bench: Bench
    deadline: float
    limit: int = 0
    tolerance: float | None = None
    roomy: bool = False
    spread: float = 0.0
    live: bool = False
    clock: Callable[[], float] = time.monotonic
    best: Choices = field(default_factory=Choices)
    tried: list[Tried] = field(default_factory=list)

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
            left = self.deadline - self.clock()
            if left < 0:
                return
            if one.row.seconds + self._compiling() > left:
                continue  # a shorter one may still be possible
            result = self._try(one, self.best)
            self.tried.append(result)
            if result.kept:
                self.best = one.on(self.best)
            yield result

    def _compiling(self) -> float:
        """Seconds that each trial takes more on top of what was kept."""
        kept = (one.proposal.row for one in self.tried if one.kept)
        return sum(row.seconds for row in kept if row.compiles)

    def _other_steps(self) -> Iterator[Proposal]:
        """What gained nothing before steps were compiled, and nearly as much as nothing: now they
        are other steps, of which it may be another part."""
        last = {one.proposal.key: one for one in self.tried}
        chosen = {one.proposal.row.name for one in self.tried if one.kept}
        for number, made in enumerate(self.tried):
            if not (made.kept and made.proposal.row.compiles):
                continue
            for one in sorted(self.tried[:number], key=_ratio):
                again = last[one.proposal.key] is one and one.proposal.row.name not in chosen
                if again and _ratio(one) < _NEARLY:
                    yield one.proposal

    def _try(self, one: Proposal, base: Choices) -> Tried:
        live = self.live or one.row.trial is TrialKind.LIVE
        try:
            again = live and one.row.trial is TrialKind.WINDOW
            found = self.compare(base, one.on(base), _ROUNDS, live=live, again=again)
        except BlockFailed as error:
            return Tried(one, None, False, f"can't be run: {error}", base)
        return Tried(one, found, *self._judged(one, found), base)

    def _judged(self, one: Proposal, found: Compared) -> tuple[bool, str]:
        """Whether it is kept, and why."""
        most = self._tolerance(one)
        if not found.off <= most:
            return False, f"losses differ by {found.off:.2g}, more than {most:g}"
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
        if not found.is_faster or not found.off <= self._tolerance():
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
        half as many more where a disturbed machine hides a gain. again: losses are those of a
        window, run again by both; else of the loop, from its begin."""
        steps = self._steps(one, live=live)
        firsts: list[TimedBlock] = []
        seconds: list[TimedBlock] = []
        for number in range(_MOST_ROUNDS if patient else rounds):
            count = max(steps, _FIRST) if number == 0 else steps
            pair = [(one, firsts), (other, seconds)]
            for choices, blocks in pair if number % 2 == 0 else reversed(pair):
                memory = number == 0 and (patient or not self.roomy)
                blocks.append(self.bench.block(choices, count, live=live, memory=memory))
            ratios = [b.seconds / a.seconds for a, b in zip(firsts, seconds, strict=True)]
            if not patient and (is_clear(ratios) or self.clock() > self.deadline):
                break
            found = compared(ratios)
            if patient and number + 1 >= rounds and (found.is_faster or found.ratio >= _WORTH):
                break
        usual, changed = firsts[0], seconds[0]
        if again:
            usual, changed = self._again(one, usual), self._again(other, changed)
        return compared(ratios, usual, changed)

    def _again(self, choices: Choices, seen: TimedBlock) -> TimedBlock:
        """The losses of the same batches, where steps can be run again."""
        block = self.bench.block(choices, _FIRST)
        return replace(seen, losses=block.losses, peak=seen.peak or block.peak)

    def _steps(self, choices: Choices, *, live: bool) -> int:
        first = self.bench.block(choices, _FIRST, live=live)
        return max(_STEPS, min(_MOST_STEPS, math.ceil(_BLOCK / max(1e-9, first.seconds))))


def is_clear(ratios: Sequence[float]) -> bool:
    """Whether further rounds would tell nothing new: all agree, or the gain that is worth a choice
    lies outside of what their mean may be."""
    if len(ratios) >= 2 and min(ratios) > _HOPELESS:
        return True
    if len(ratios) < _ENOUGH:
        return False
    if max(ratios) < _WORTH or min(ratios) > 1.0:
        return True
    logs = [math.log(one) for one in ratios]
    deviation = max(_DEVIATION, statistics.stdev(logs))
    off = _T.get(len(logs), 2.9) * deviation / math.sqrt(len(logs))
    return abs(statistics.fmean(logs) - math.log(_WORTH)) > off


def compared(
    ratios: Sequence[float],
    usual: TimedBlock = _NOTHING,
    other: TimedBlock = _NOTHING,
) -> Compared:
    """What rounds tell. usual, other: a block of each side."""
    ordered = sorted(ratios)
    # Some may be disturbed: so many of those rounds that the rest agree by chance once in fifty
    # times at most (of five to eight rounds one: such a gain is to be proven yet).
    count = len(ordered)
    few = 3 if count >= 15 else 2 if count >= 12 else 1 if count > 4 else 0
    spared = ordered[few : count - few]
    return Compared(
        statistics.median(ordered),
        spared[0],
        spared[-1],
        difference(usual.losses, other.losses),
        other.peak,
        other.losses,
        usual,
    )


def difference(usual: Sequence[float], others: Sequence[float]) -> float:
    """The greatest difference, relative to the largest loss; infinite where one isn't finite."""
    if not all(map(math.isfinite, others)):
        return math.inf if all(map(math.isfinite, usual)) else 0.0
    if (
        usual and others and len(usual) != len(others) and 1 in (len(usual), len(others))
    ):  # of threads: a mean
        usual, others = [statistics.fmean(usual)], [statistics.fmean(others)]
    scale = max((abs(one) for one in usual), default=0.0) or 1.0
    pairs = zip(usual[:_ALIKE], others[:_ALIKE], strict=False)
    return max((abs(a - b) for a, b in pairs), default=0.0) / scale
