"""`refluid run --auto`: what is cheap to find out, found out while training.

Steps of the loop are run by one way and another in turns, and what is faster is kept. No step is
run for this alone but some whose traces are taken back: a way that may round otherwise is tried
only once the same batches gave the same bits both ways, and later only for feeds of these shapes.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from refluid.core.threads import use_threads
from refluid.engine.choices import Choices, all_chosen, choose
from refluid.engine.knobs import KnobScope
from refluid.engine.listening import RunCall
from refluid.engine.replica_scopes import updates_variables
from refluid.tune.ahead import ReaderDepth
from refluid.tune.ratios import Compared
from refluid.tune.turns import PACE, RacePace, race
from refluid.tune.ways import Way, is_repeatable, signature, ways
from refluid.tune.window import StepWindow, plain_program

# A program is the loop once it was run so often, and for so many seconds.
_RECOGNISED, _SECONDS = 12, 1.0
# Of the time that runs took so far, at most this part goes to steps that are taken back.
_SHARE = 0.05
# Different batches whose bits are compared.
_BATCHES = 4
# Bits are those of all threads, however busy the machine is just now.
_AS_MANY = KnobScope.FLAG, "FLAGS_refluid_adaptive_threads", False
_Course = Generator[Way, "_Ran", None]


@dataclass(frozen=True)
class _Ran:
    """A step of the loop that was run."""

    call: RunCall
    seconds: float


@dataclass(frozen=True)
class AutoTrial:
    """A way that was tried. found: beside the way before it; None where its bits differ."""

    way: Way
    found: Compared | None
    kept: bool

    def __str__(self) -> str:
        if self.found is None:
            return f"{self.way.name}: not tried, it may round otherwise"
        figures = f"{self.found.ratio:.2f} ({self.found.low:.2f} to {self.found.high:.2f})"
        kept = "kept" if self.kept else "not kept"
        return f"{self.way.name}: {figures} of the time of a step before, {kept}"


class Auto:
    """Hears of every run. clock: seconds; pace: of races."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, pace: RacePace = PACE
    ) -> None:
        self.tried: list[AutoTrial] = []
        self.depth = ReaderDepth()
        self._clock, self._pace = clock, pace
        self._runs: Counter[Hashable] = Counter()
        self._seconds: Counter[Hashable] = Counter()
        self._key: Hashable | None = None
        self._usual = self._way = Way("what the script says", all_chosen())
        self._holds = self._usual.choices
        self._course: _Course | None = None

    def __call__(self, call: RunCall) -> list[Any]:
        """The listener of `engine.listening`."""
        if threading.current_thread() is not threading.main_thread():
            return call()
        self.depth.look(self._clock())
        key = call.key
        if key != self._key:
            self._hold(self._usual.choices)
            return call() if self._key is not None else self._first(key, call)
        way = self._way if self._way.fits(call.feed) else self._usual
        self._hold(way.choices)
        start = self._clock()
        with use_threads(way.threads) if way.threads else nullcontext():
            results = call()
        if self._course is not None:
            self._go_on(self._course, _Ran(call, self._clock() - start))
        return results

    def _first(self, key: Hashable, call: RunCall) -> list[Any]:
        """A run of a program that may be the loop."""
        start = self._clock()
        results = call()
        self._runs[key] += 1
        self._seconds[key] += self._clock() - start  # type: ignore[assignment]
        often = self._runs[key] >= _RECOGNISED and self._seconds[key] >= _SECONDS
        if often and updates_variables(plain_program(call.program)):
            self._key = key
            self._course = self._whole_course(float(self._seconds[key]))
            self._way = next(self._course)
        return results

    def _go_on(self, course: _Course, ran: _Ran) -> None:
        try:
            self._way = course.send(ran)
        except StopIteration:
            self._course = None

    def _hold(self, choices: Choices) -> None:
        if choices is not self._holds:
            choose(choices)
            self._holds = choices

    def end(self) -> None:
        """Puts back what held before."""
        self._hold(self._usual.choices)

    def _whole_course(self, spent: float) -> _Course:
        """Which way the next step goes, step by step."""
        best = self._way
        latest: deque[_Ran] = deque(maxlen=_BATCHES)
        while len(latest) < _BATCHES:
            latest.append((yield best))
        for way in ways(latest[0].call, best):
            while not self._affords(latest, spent):
                latest.append((yield best))
                spent += latest[-1].seconds
            checked = self._checked(way, latest)
            if checked is None:
                self.tried.append(AutoTrial(way, None, kept=False))
                continue
            found, seconds = yield from self._raced(best, checked)
            spent += seconds
            self.tried.append(AutoTrial(checked, found, found.is_faster))
            best = checked if found.is_faster else best
        self._way = best

    def _affords(self, latest: deque[_Ran], spent: float) -> bool:
        """Whether so much time went by that a check is a small part of it."""
        # Both sides, and as much again for copies of what is trained.
        return 4 * sum(one.seconds for one in latest) <= _SHARE * spent

    def _checked(self, way: Way, latest: deque[_Ran]) -> Way | None:
        """The way, with what it is known to be the same for; None where it isn't, or may not be."""
        if way.is_exact:
            return way
        calls = [one.call for one in latest]
        known = frozenset(signature(one.feed) for one in calls)
        if None in known or not is_repeatable(calls[0]):
            return None
        self._hold(self._usual.choices)
        window = StepWindow(calls, beside=True)
        try:
            bits = []
            for side in (self._usual, way):
                with use_threads(side.threads) if side.threads else nullcontext():
                    bits.append(window.bits(side.choices.put(*_AS_MANY)))
        except Exception:  # the script's own steps go on
            return None
        finally:
            window.close()
        return replace(way, known=known) if bits[0] == bits[1] else None

    def _raced(self, best: Way, way: Way) -> Generator[Way, _Ran, tuple[Compared, float]]:
        sides, spent, course = (best, way), 0.0, race(self._pace)
        side = next(course)
        while True:
            ran = yield sides[side]
            spent += ran.seconds
            try:
                side = course.send(ran.seconds)
            except StopIteration as ended:
                return ended.value, spent

    def told(self) -> Iterator[str]:
        """What was chosen, and what it gains; line by line."""
        gained = [one for one in self.tried if one.kept]
        factor = 1.0
        for one in gained:
            assert one.found is not None
            factor *= one.found.ratio
        if gained:
            names = ", ".join(one.way.name for one in gained)
            yield f"steps take {factor:.2f} of their time, by {names}"
        else:
            yield "nothing that changes no number made steps faster"
        yield from map(str, self.tried)
        yield from self.depth.told()
