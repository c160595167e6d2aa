"""What blocks of steps by two sides, in turns, tell of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# After two rounds, what takes so many times as long is given up.
_HOPELESS = 1.1
WORTH = 0.98
"""Time of steps that are worth a choice, beside those without it."""
_ENOUGH = 3
# Student's t of 98% for so many rounds, and the least deviation of ratios that is believed.
_T = {3: 6.96, 4: 4.54, 5: 3.75, 6: 3.36, 7: 3.14, 8: 3.0}
_DEVIATION = 0.008
# Losses of so many steps are compared: later ones differ by what rounding does to training.
_ALIKE = 8
# What holds so much of the memory is worth it where there is too little.
_LESS = 0.95


@dataclass(frozen=True)
class TimedBlock:
    """Steps of one side: seconds of one, losses of all, bytes at the peak (0: not measured)."""

    seconds: float
    losses: Sequence[float] = ()
    peak: int = 0


_NOTHING = TimedBlock(0.0)


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

    def spares_memory(self, limit: int) -> bool:
        """Whether A holds more than the limit, and B clearly less than that."""
        return 0 < limit < self.usual.peak and self.peak < _LESS * self.usual.peak

    @property
    def is_faster(self) -> bool:
        """Whether B is, in all rounds but one, and by enough to matter."""
        return self.ratio < WORTH and self.high < 1.0


def is_clear(ratios: Sequence[float]) -> bool:
    """Whether further rounds would tell nothing new: all agree, or the gain that is worth a choice
    lies outside of what their mean may be."""
    if len(ratios) >= 2 and min(ratios) > _HOPELESS:
        return True
    if len(ratios) < _ENOUGH:
        return False
    if max(ratios) < WORTH or min(ratios) > 1.0:
        return True
    logs = [math.log(one) for one in ratios]
    deviation = max(_DEVIATION, statistics.stdev(logs))
    off = _T.get(len(logs), 2.9) * deviation / math.sqrt(len(logs))
    return abs(statistics.fmean(logs) - math.log(WORTH)) > off


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
