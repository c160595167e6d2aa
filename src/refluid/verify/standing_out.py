"""A variable that stands out: off by more than rounding explains, where no other is.

How far rounding moves Fluid's run from refluid's is not known beforehand, but most variables show
it: a single wrong gradient, decay or update touches few. So refluid repeats the run from parameters
changed by several sizes, up to where the median variable is moved far more than Fluid is off.
Flips are in those repetitions too, and move many variables at once: each group of variables that
one operator updates is predicted from all others (`prediction`), and what is left of it must be as
what is left of repetitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from refluid.verify.metrics import Deviation
from refluid.verify.prediction import SUMS, Prediction
from refluid.verify.recordings import Array

# Units in the last place that parameters are changed by, and how often; more often if in doubt.
SIZES, TIMES = (0.25, 1.0, 4.0, 8.0), (4, 8, 16, 32)
# Of the scatter of the median variable: sizes by which Fluid is off by less aren't Fluid's.
NEAR = 0.15
# In standard deviations of what is left: right in any case, or in doubt; wrong, unless some
# repetition is off by nearly as much.
CLEAR, LIMIT, USUALLY = 6.0, 12.0, 1.5
# Off by no more than one element that rounding turned round, in standard deviations.
TURNED = 6.0
# Of the groups, and in number: more that stand out at once are a flip that no repetition had. It is
# believed if further changed ones, and so many, have any that moves some group as far.
MANY, FEWEST, FURTHER, FAR = 0.02, 3, 32.0, 8
Fetch = tuple[int, str]


class OwnRuns(Protocol):
    """The run by refluid, and its repetitions from slightly changed parameters."""

    def digests(self, step: int, size: float, count: int) -> Mapping[Fetch, Sequence[Array]]:
        """Of variables after a step, in `count` repetitions whose parameters were changed by at
        most `size` units in the last place; one without a change where that is 0. What a parameter
        was changed by itself is taken back."""


def standing_out(some: Sequence[Deviation], repeats: OwnRuns) -> str:
    """Why one of the variables is no result of rounding; nothing if all may be.

    some: of one step, with Fluid's digests.
    """
    known = [
        one for one in some if one.wanted and one.wanted_size and np.isfinite(one.wanted).all()
    ]
    if not known:
        return ""
    step = known[0].step
    wanted = np.array([one.wanted for one in known])
    sizes = np.array([[one.wanted_size] for one in known])
    sums, elements = wanted[:, [1, 1, 2]], np.maximum(np.abs(wanted[:, 3:]), sizes)
    scale = np.concatenate([sums, elements], 1)

    def runs(size: float, count: int) -> Array:
        found = repeats.digests(step, size, count)
        return np.stack([np.array(found[one.key][:count]) for one in known], 1)

    base = runs(0.0, 1)[0]
    off = (wanted - base) / scale
    slack = _turned(known, wanted) / scale / TURNED
    names = [one.updated or one.label for one in known]
    groups = [np.flatnonzero([one == name for one in names]) for name in dict.fromkeys(names)]
    # What is off by no more than the metric allows any element is no wrong number.
    differs = np.array([any(known[one].error > 0 for one in group) for group in groups])
    for count in TIMES:
        samples: list[Array] = []
        for size in SIZES:
            found = (runs(size, count) - base) / scale
            if samples and _nearness(off, found) < NEAR:
                break
            samples.append(found)
        prediction = Prediction(np.concatenate(samples), groups, slack)
        left, limit = prediction.left(off) * differs, max(LIMIT, USUALLY * prediction.usual)
        if left.max() <= (CLEAR if count < TIMES[-1] else limit):
            return ""
    if (left > limit).sum() > max(FEWEST, MANY * len(groups)):
        far = (runs(FURTHER, FAR) - base) / scale
        if max(prediction.left(one).max() for one in far) > left.max():
            return ""
    worst = known[groups[int(left.argmax())][0]]
    return (
        f"{worst.updated or worst.label} after step {step}: off by {left.max():.0f} times what"
        f" rounding leaves unexplained, repetitions by up to {prediction.usual:.0f} times"
    )


def _turned(known: Sequence[Deviation], wanted: Array) -> Array:
    """By how much one element that is turned round changes each number."""
    turned = np.array([[one.turned] for one in known])
    sizes = np.array([[one.wanted_size] for one in known])
    return np.asarray(turned * np.where(np.arange(wanted.shape[1]) == 2, 2.0 * sizes, 1.0))


def _nearness(off: Array, samples: Array) -> float:
    """How far the median variable is off, of what it scatters by."""
    scatter = np.sqrt(np.square(samples[:, :, :SUMS]).mean(0)).max(1)
    moved = scatter > 1e-9
    if not moved.any():
        return np.inf
    return float(np.median(np.abs(off[moved, :SUMS]).max(1) / scatter[moved]))
