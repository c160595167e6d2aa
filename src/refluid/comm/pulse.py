"""`Pulse`: each trainer tells now and then how far it is; the first one knows of all."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

_EVERY = 1.0


class Beat(NamedTuple):
    """What one trainer has done since its first step. seconds: of that time."""

    steps: int
    rows: int
    seconds: float
    waited: float

    def since(self, before: Beat) -> Beat:
        """What was done after another one."""
        return Beat(
            self.steps - before.steps,
            self.rows - before.rows,
            self.seconds - before.seconds,
            self.waited - before.waited,
        )


NONE = Beat(0, 0, 0.0, 0.0)


class Pulse:
    """store: where all trainers tell it. waited: seconds this one has waited for exchanges.

    tell: at the first trainer, is given the beats of all that have told one, by rank.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        waited: Callable[[], float],
        tell: Callable[[dict[int, Beat]], None] | None = None,
        every: float = _EVERY,
    ) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._waited, self._tell, self._every = waited, tell, every
        self._steps = self._rows = 0
        self._begun = self._told = time.perf_counter()
        self._before = 0.0

    def after_step(self, rows: int) -> None:
        """To be called after each step, with the rows of its batch."""
        now = time.perf_counter()
        if self._steps == 0:
            self._begun, self._before = now, self._waited()
        self._steps += 1
        self._rows += rows if self._steps > 1 else 0
        if now - self._told >= self._every:
            self._told = now
            self._beat(now - self._begun)

    def _beat(self, seconds: float) -> None:
        waited = self._waited() - self._before
        beat = Beat(self._steps - 1, self._rows, seconds, waited)
        self._store.set(_key(self._rank), json.dumps(beat))
        if self._tell is not None:
            self._tell(self._of_all())

    def _of_all(self) -> dict[int, Beat]:
        there = [rank for rank in range(self._size) if self._store.check([_key(rank)])]
        return {rank: Beat(*json.loads(self._store.get(_key(rank)))) for rank in there}


def _key(rank: int) -> str:
    return f"pulse/{rank}"
