"""A loop of dygraph at its gate: each step ends in an update, and the next one is up to Python.

Its steps can't be run again, but a process started anew runs the same ones: `Sessions` has a
process for each way of running them, and lets these go on in turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import Any

from refluid.runtime.recorded.trial import undecided
from refluid.tune.living import Life, Living, LoopKind
from refluid.tune.passing_profile import watched

# Steps, or seconds, that are measured first; steps that are watched; most until all is compiled.
_FIRST = 24, 6.0
_WATCHED = 6
_COMPILING = 2000
KIND = LoopKind(at_once=True)
_Course = Generator[None, Any, None]


class PassingLoop:
    """say: tells the tuner. ask: what it asks for next, None where it is gone.

    before: steps that go by before some are measured. has_others: whether other trainers run the
    same steps.
    """

    def __init__(
        self,
        say: Callable[[dict[str, Any]], None],
        ask: Callable[[], dict[str, Any]],
        before: int,
        *,
        has_others: bool = False,
    ) -> None:
        self._say, self._ask, self._before, self._has_others = say, ask, before, has_others
        self._course = self._whole_course()
        next(self._course)

    def passed(self, loss: Any) -> None:
        """A step ended."""
        self._course.send(loss)

    def _whole_course(self) -> _Course:
        for _ in range(self._before):
            yield
        first = most = (_FIRST[0], math.inf) if self._has_others else _FIRST
        while True:
            life = yield from self._measured(most)
            for _ in range(_COMPILING):
                if self._has_others or not undecided():
                    break
                yield
            self._say({"life": asdict(life)})
            while (asked := self._ask())["do"] != "go":
                yield from self._answered(asked)
            most = (asked["steps"], math.inf) if asked["steps"] else first

    def _measured(self, most: tuple[int, float]) -> Generator[None, Any, Life]:
        living = Living(most, KIND)
        while not living.is_enough:
            living.passed((yield))
        return living.end()

    def _answered(self, asked: dict[str, Any]) -> _Course:
        if asked["do"] != "profile":
            self._say({"failed": "steps of dygraph can't be run again"})
            return
        yield  # the rest of the step that stands at the gate is not a whole one
        with watched(_WATCHED) as found:
            for _ in range(_WATCHED):
                yield
        self._say(asdict(found[0]))
