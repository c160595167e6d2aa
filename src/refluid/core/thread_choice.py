"""How many threads the operators of a plan use: fewer where others hold the cores.

Operators share their work among threads and wait for the last one. Where another process holds the
core of one, all others wait for it. So, where threads of this process wait for cores, steps by all
threads, by half of them and so on down to one are timed in turns, and the fastest number is kept.
It is tried again from time to time, and soon where threads begin or cease to wait. Where none
waits, nothing is ever tried. A plan that begins where they wait begins with one thread: steps by
more can take ten times as long or longer, and one thread waits for no other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from numpy import median


@dataclass(frozen=True, slots=True)
class Pace:
    """When to try what. All times are in seconds.

    look: of steps, between two looks at how many threads wait. warm: steps before all trials.
    crowded, quiet: so many waiting threads, on average, are more or fewer than usual.
    block: of steps by one number of threads; there are at most `rounds` blocks of each, `agreeing`
        where one number was the fastest in all.
    clearly: what takes so many times as long as the fastest is left out of further rounds; after
        its first block, what takes `hopeless` times as long.
    gain: so many times as fast a number must be to replace the present one.
    patience: of steps until a plan that began with one thread tries more.
    rest: after a trial, so many times its length of steps pass without one; where the waiting has
        changed since, `soon` times its length of any time. Twice that for each trial in a row that
        chose fewer threads, of which none waited afterwards.
    """

    look: float = 0.5
    warm: int = 8
    crowded: float = 0.1
    quiet: float = 0.03
    block: float = 0.5
    rounds: int = 7
    clearly: float = 2.0
    agreeing: int = 3
    hopeless: float = 4.0
    gain: float = 1.05
    patience: float = 60.0
    rest: float = 50.0
    soon: float = 5.0


PACE = Pace()
_MOST_AGAIN = 10


def numbers(most: int) -> list[int]:
    """All threads, half of them, and so on down to one."""
    found = [most]
    while found[-1] > 1:
        found.append(found[-1] // 2)
    return found


def trial(tried: Sequence[int], pace: Pace) -> Generator[int, float, dict[int, float]]:
    """Gives the number of threads of the next step, takes the seconds that the step took.

    Returns the seconds of a step by each number that was not left out as clearly slower.
    """
    took: dict[int, list[float]] = {number: [] for number in tried}
    typical: dict[int, float] = {}
    left, winners = list(tried), set[int]()
    for done in range(pace.rounds):
        for number in left if done % 2 else left[::-1]:
            # The first step warms up: kernels prepare, threads of the block before still spin.
            mean = yield number
            if mean <= pace.hopeless * max(pace.block, min(typical.values(), default=mean)):
                mean = yield from _block(number, pace.block)
            took[number].append(mean)
            typical[number] = float(median(took[number]))
        winners.add(min(left, key=lambda number: took[number][-1]))
        slow = (pace.clearly if done else pace.hopeless) * min(typical.values())
        left = [number for number in left if typical[number] <= slow]
        typical = {number: typical[number] for number in left}
        if len(left) == 1 or (len(winners) == 1 and done + 1 >= pace.agreeing):
            break
    return typical


def _block(number: int, length: float) -> Generator[int, float, float]:
    """The mean seconds of steps that take `length` together."""
    seconds = yield number
    steps = 1
    while seconds < length:
        seconds += yield number
        steps += 1
    return seconds / steps


class ThreadChoice:
    """The choice for one plan: `begin` before each step, `end` after it unless it failed.

    most: threads of a quiet machine. waiting: threads that wait for a core, on average since it
    was last asked; None if this is no time to try anything. first: what to begin with, if known.
    `threads` is what is chosen now, `changes` tells of a change in words.
    """

    def __init__(
        self,
        most: int,
        waiting: Callable[[], float | None],
        pace: Pace = PACE,
        first: int | None = None,
    ) -> None:
        self.most, self.threads = most, first or most
        self.changes = ""
        self._waiting, self._pace, self._first = waiting, pace, first
        self._steps, self._spent = 0, 0.0
        self._next_look = pace.look  # once so much is spent: a few steps say little
        self._crowded: bool | None = None  # what a change is seen by
        self._rest, self._soon = 0.0, 0.0  # before so much is spent, or that time, none is tried
        self._again = 0  # trials in a row that chose fewer threads, of which none waited since
        self._trial: Generator[int, float, dict[int, float]] | None = None
        self._tried, self._length = 0, 0.0

    def begin(self, now: float) -> int:
        """The number of threads for the step that begins at `now`, in seconds of any clock."""
        if self._trial is not None:
            return self._tried
        if not self._steps:
            self._start()
        elif self._spent >= self._next_look and self._steps >= self._pace.warm:
            self._next_look = self._spent + self._pace.look
            if self._is_due(now):
                trying = trial(numbers(self.most), self._pace)
                self._tried, self._length = next(trying), 0.0
                self._trial = trying  # last: an interrupt before leaves no trial
                return self._tried
        return self.threads

    def end(self, now: float, seconds: float) -> None:
        """The step that ended at `now` took so many seconds."""
        self._steps += 1
        self._spent += seconds
        if self._trial is None:
            return
        self._length += seconds
        try:
            self._tried = self._trial.send(seconds)
        except StopIteration as ended:
            self._trial = None
            self._waiting()  # what waited in the trial says nothing of what follows
            if ended.value is not None:  # else an interrupt had ended it
                self._decide(ended.value)
            self._pause(now)

    def _start(self) -> None:
        if self._first is None and (self._waiting() or 0.0) > self._pace.crowded:
            self.threads, self._crowded, self._rest = 1, True, self._pace.patience

    def _pause(self, now: float) -> None:
        """After a trial none follows for a while."""
        fewer = self.threads < self.most
        # Where fewer were chosen, that none waits is news: what was waited for may be gone.
        self._crowded = True if fewer else None
        self._rest = self._spent + self._pace.rest * self._length
        self._soon = now + self._pace.soon * self._length * 2 ** min(self._again, _MOST_AGAIN)
        self._again = self._again + 1 if fewer else 0
        self._next_look = self._spent + self._pace.look

    def _is_due(self, now: float) -> bool:
        waiting = self._waiting()
        if waiting is None:
            return False
        crowded = waiting > (self._pace.quiet if self._crowded else self._pace.crowded)
        by_all = self.threads == self.most
        if self._crowded is None or crowded is not by_all:
            self._crowded = crowded
        if by_all and not crowded:
            return False
        if crowded:
            self._again = 0
        # What matters is that waiting began by all threads, or ceased by fewer.
        changed = crowded is not self._crowded
        return self._spent >= self._rest or (changed and now >= self._soon)

    def _decide(self, found: dict[int, float]) -> None:
        best, present = min(found, key=found.__getitem__), self.threads
        if present in found and found[present] <= self._pace.gain * found[best]:
            return
        self.changes = f"operators use {best} instead of {present} of {self.most} threads"
        if present in found:
            self.changes += f": {found[best] * 1e3:.3g} ms a step, not {found[present] * 1e3:.3g}"
        self.threads = best
