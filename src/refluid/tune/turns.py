"""Two sides of a loop that goes on: its steps by one and by the other, in turns."""

from __future__ import annotations

import statistics
from collections.abc import Generator
from dataclasses import dataclass

from refluid.tune.ratios import Compared, compared, is_clear


@dataclass(frozen=True, slots=True)
class RacePace:
    """block: seconds of steps of one side. least: of them. warm: steps that aren't counted when a
    side is met first: recording takes some. rounds: at most. hopeless: a step of the second side
    that takes so many times as long ends all."""

    block: float = 0.25
    least: int = 5
    warm: int = 8
    rounds: int = 7
    hopeless: float = 4.0


PACE = RacePace()
Race = Generator[int, float, Compared]


def race(pace: RacePace = PACE) -> Race:
    """Gives the side, 0 or 1, of the next step; takes its seconds. Returns 1 beside 0."""
    ratios: list[float] = []
    for number in range(pace.rounds):
        found = [0.0, 0.0]
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            usual = found[0] if number == 0 and side else 0.0
            found[side] = yield from _block(side, pace, pace.warm if number == 0 else 1, usual)
        ratios.append(found[1] / max(found[0], 1e-9))
        if is_clear(ratios) or (len(ratios) == 1 and ratios[0] > pace.hopeless):
            break
    return compared(ratios)


def _block(side: int, pace: RacePace, warm: int, usual: float) -> Generator[int, float, float]:
    """The median seconds of a step. usual: a step of the other side, where it may be hopeless."""
    for _ in range(warm):
        yield side
    seconds: list[float] = []
    while len(seconds) < pace.least or sum(seconds) < pace.block:
        seconds.append((yield side))
        if usual and len(seconds) > 1 and min(seconds) > pace.hopeless * usual:
            break
    return statistics.median(seconds)
