"""`Attendance`: which trainers still have data, so that those without neither wait nor count.

In each step that exchanges something every trainer tells the others which step it runs, or that it
has no more data. One without data repeats its last step of that kind along with the others,
contributing nothing, until all are without.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

from refluid.comm.spans import note
from refluid.core.errors import EnforceNotMet, EOFException

T = TypeVar("T")
# What is told in place of the number of a step: no more data; something that others can't repeat.
_ENDED, _NEW = 0, 1
# Steps of so many kinds can be repeated: the last ones.
_KINDS = 64
RepeatStep = Callable[[], Any]


@runtime_checkable
class Announcing(Protocol):
    """Members that tell each other numbers, as `Processes`."""

    @property
    def size(self) -> int:
        """How many members there are."""

    def announce(self, number: int) -> Callable[[], list[int]]:
        """Tells all others a number, without waiting; gives what tells theirs, by rank."""


def number_of(lines: Iterable[str]) -> int:
    """What stands for a step that these lines tell of, and hardly for another one; 2 or more."""
    text = "\n".join(lines)
    return 2 + int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


class Attendance:
    """steps: how many this trainer has run of those that exchange something. rounds: how many the
    trainers have run, this one or others.

    repeating: whether this trainer is without data, and repeats a step. asks: whether it asks the
    others for something when it tells them of the next step (see `asked`). waited: seconds in which
    steps waited for exchanges; watch: is called after each step of this trainer with its rows.
    """

    def __init__(self, trainers: Announcing) -> None:
        self._trainers = trainers
        self.steps = self.rounds = 0
        self.repeating = self.asks = False
        self.waited = 0.0
        self.watch: Callable[[int], None] | None = None
        self._within = False
        self._number, self._begun = _ENDED, 0.0
        self._asked: Callable[[], list[int]] | None = None
        self._told: list[tuple[int, bool]] | None = None
        self._repeats: OrderedDict[int, RepeatStep] = OrderedDict()
        self._lock = threading.Lock()

    def step(self, number: int, run: Callable[[], T], repeat: RepeatStep, rows: int = 0) -> T:
        """What `run()` gives: a step that exchanges something, with a number of 2 or more.

        repeat: runs it again. rows: of its batch. Where a reader of the step is at its end, this
        trainer is without data: the EOFException comes when all are.
        """
        self.begin(number)
        try:
            found = run()
        except EOFException:
            self.abandon()
            self.finish()
            raise
        except BaseException:
            self.abandon()
            raise
        self.end(repeat, rows)
        return found

    def begin(self, number: int) -> None:
        """A step begins: until its end, exchanges are of those with data."""
        self._begun = time.perf_counter()
        self._settle()
        self._number, self._within = number, True

    def abandon(self) -> None:
        """The step that is under way has failed."""
        self._within = False

    def end(self, repeat: RepeatStep, rows: int = 0) -> None:
        """The step that is under way was made; others as of `step`."""
        self.tell()
        self._within = False
        self.steps += 1
        self.rounds += 1
        self._repeats[self._number] = repeat
        self._repeats.move_to_end(self._number)
        if len(self._repeats) > _KINDS:
            self._repeats.popitem(last=False)
        note("step", self._begun)
        if self.watch is not None:
            self.watch(rows)

    def finish(self) -> None:
        """This trainer has no more data: repeats steps of the others until all are here."""
        if not self._repeats or self.repeating:
            return
        self.repeating = True
        try:
            while (number := self._next_of_others()) != _ENDED:
                self._within = True
                self._repeats[number]()
                self._within = False
                self.rounds += 1
        finally:
            self.repeating = self._within = False

    def settle_with_all(self, what: str) -> None:
        """EnforceNotMet where a trainer is without data: what comes next can't be repeated."""
        if not self._repeats:
            return
        self._settle()
        self._number = _NEW
        self._tell()
        if any(one == _ENDED for one, _ in self._settle()):
            raise EnforceNotMet(_UNKNOWN.format(what=what))

    def share(self) -> float:
        """By what a sum is multiplied: trainers in all, divided by those with data."""
        with self._lock:
            told = [number for number, _ in self._now()]
        going = [one for one in told if one != _ENDED]
        if len(set(going)) > 1:
            raise EnforceNotMet("trainers run different programs, or feed other variables")
        return len(told) / len(going)

    def asked(self) -> bool | None:
        """Whether a trainer asked for something in the last step; None where one had no data.

        The answer is the same for all trainers that have data.
        """
        told = self._now() if self._asked is not None else self._told or []
        return None if any(one == _ENDED for one, _ in told) else any(asks for _, asks in told)

    def tell(self) -> None:
        """Tells the others of the step that is under way, unless they were told."""
        with self._lock:
            self._tell()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around what waits for others, who are told of a step that is under way first."""
        if self._within:
            self.tell()
        begun = time.perf_counter()
        yield
        self.waited += time.perf_counter() - begun
        note("wait", begun)

    @property
    def counts(self) -> bool:
        """Whether a step is under way, in which sums are those of all with data."""
        return self._within

    # -- what is told, once for each step ----------------------------------------------------------

    def _next_of_others(self) -> int:
        """Which step the others run; 0 where all are without data."""
        self._settle()
        self._number = _ENDED
        self._tell()
        going = {one for one, _ in self._now()} - {_ENDED}
        if len(going) > 1:
            raise EnforceNotMet("trainers run different programs, or feed other variables")
        number = going.pop() if going else _ENDED
        if number != _ENDED and number not in self._repeats:
            raise EnforceNotMet(_UNKNOWN.format(what="run a new program, or with new feeds"))
        return number

    def _tell(self) -> None:
        if self._asked is None and self._told is None:
            self._asked = self._trainers.announce(self._number << 1 | self.asks)

    def _now(self) -> list[tuple[int, bool]]:
        if self._told is None:
            self._tell()
            assert self._asked is not None
            self._told = [(word >> 1, bool(word & 1)) for word in self._asked()]
            self._asked = None
        return self._told

    def _settle(self) -> list[tuple[int, bool]]:
        """What was told in the last step."""
        found = self._now() if self._asked is not None else (self._told or [])
        self._told = None
        return found


_UNKNOWN = (
    "a trainer is without data while others begin to {what}, which it can't do along with them: "
    "have all trainers run each kind of step before one of them comes to its end"
)
