"""Steps by several threads or by one, whichever takes less time.

`ExecutionStrategy.num_threads` has operators run in several threads, out of order. That gains where
they are long and independent of each other; where they are short, a recorded step of one thread
takes less. So steps by both are timed in turns, and the faster way is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from torch import Tensor

from refluid.core import flags
from refluid.core.offsets import Levels
from refluid.core.scope import Scope
from refluid.core.thread_choice import Pace, trial
from refluid.core.threads import may_adapt
from refluid.runtime.plan import Fetched, Plan
from refluid.runtime.recorded.tiers import before_recording

_log = logging.getLogger("refluid")

# What takes twice as long isn't hopeless here: few blocks are timed, and once.
_PACE = Pace(block=0.1, rounds=5, hopeless=10.0)
# So many steps by several threads go by first, and by one thread once the step is recorded.
_WARM = 3


class EitherOrder:
    """The steps of a plan that runs operators in several threads, or of one that doesn't.

    Every step runs once, by one of the two. They compute the same but for rounding, so where
    repeatable numbers are asked for, or `FLAGS_refluid_adaptive_threads` is off, all run by several
    threads.
    alone: makes the plan of one thread.
    """

    def __init__(
        self,
        several: Plan,
        alone: Callable[[], Plan],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.several = several
        self._make, self._clock = alone, clock
        self._inside: list[Plan] = []
        self._state: int | None = None  # of the flags, under which it is decided
        self._race = self._raced()
        self._plan = next(self._race)

    def run(
        self, scope: Scope, feeds: Sequence[Tensor], lods: Sequence[Levels] = ()
    ) -> list[Fetched]:
        """As `Plan.run`."""
        if self._state == flags.state():
            return self._plan.run(scope, feeds, lods)
        if not may_adapt():
            return self.several.run(scope, feeds, lods)
        if self._inside:  # another thread's step is timed
            return self._plan.run(scope, feeds, lods)
        try:
            self._inside.append(self._plan)
            return self._timed(scope, feeds, lods)
        finally:
            self._inside.clear()

    def _timed(self, *given: Any) -> list[Fetched]:
        if self._state is not None:  # the flags have changed since
            race = self._raced()
            self._plan = next(race)
            self._race = race  # Ctrl-C before leaves none that hasn't begun
            self._state = None
        begin = self._clock()
        found = self._plan.run(*given)
        took = self._clock() - begin
        try:
            self._plan = self._race.send(took)
        except StopIteration as ended:  # without a value where Ctrl-C had ended it
            self._plan, self._state = ended.value or self.several, flags.state()
        return found

    def _raced(self) -> Generator[Plan, float, Plan]:
        """Gives the plan of the next step, takes the seconds of the last; returns the faster."""
        for _ in range(_WARM):
            yield self.several
        alone = self._make()
        for _ in range(before_recording(len(alone.code.source.steps)) + _WARM):
            yield alone
        threads = self.several.request.threads
        plans = {threads: self.several, 1: alone}
        trying = trial((threads, 1), _PACE)
        number = next(trying)
        while True:
            seconds = yield plans[number]
            try:
                number = trying.send(seconds)
            except StopIteration as ended:
                return plans[_fastest(ended.value, threads)]


def _fastest(took: dict[int, float], threads: int) -> int:
    best = min(took, key=took.__getitem__)
    said = ", ".join(f"{number}: {one * 1e3:.3g} ms" for number, one in sorted(took.items()))
    _log.info("of num_threads=%d operators run by %d (a step by %s)", threads, best, said)
    return best
