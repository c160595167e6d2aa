"""A variable that stands out: off by more than rounding scatters it, where no other is.

What rounding flips moves all variables behind the flip; what one wrong gradient, decay or update
does shows in that parameter alone. So each variable's sums are compared with those of repetitions
by refluid, in units of their own scatter, and the limit is what the repetitions, each compared with
the others, reach themselves. The sum is as telling as the sum of squares: a dropped decay shifts
all elements of a scale one way, while flips cancel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from refluid.verify.metrics import FLOOR, Deviation
from refluid.verify.recordings import Array

# In standard deviations of few repetitions; times what they reach themselves; times the root mean
# square of what further changed ones are off by.
LEAST, TIMES, RARELY = 6.0, 2.0, 5.0
# Relative to the variable: more scatter says nothing of it, less is not believed of so few.
NOISE, SURE = 0.01, 1e-5
_SUMS = ("sum", "sum of magnitudes", "sum of squares")
Key = tuple[int, str]
Sums = Mapping[Key, Sequence[Array]]


class OwnRuns(Protocol):
    """Repetitions by refluid from slightly changed parameters."""

    def sums(self, step: int, *, further: bool = False) -> Sums:
        """Digests of variables after a step: in a run and its repetitions, or in repetitions from
        further changed parameters, so that rare flips are among them."""


def standing_out(some: Sequence[Deviation], repeats: OwnRuns) -> str:
    """Why one of the variables is no result of rounding; nothing if all may be.

    some: of one step, with Fluid's digests.
    """
    known = [one for one in some if one.wanted and one.elements]
    if not known:
        return ""
    step = known[0].step
    sizes = np.array([[one.elements] for one in known], dtype=float)
    wanted = np.array([one.wanted[:3] for one in known])
    scale = np.maximum(wanted[:, [1, 1, 2]], 1e-30)
    slack = _slack(wanted, sizes) / scale

    def relative(runs: Sums) -> Array:
        each = np.stack([np.array(runs[one.key])[:, :3] for one in known], 1)
        return np.asarray((each - wanted) / scale)

    runs = relative(repeats.sums(step))
    off, z = _apart(np.zeros_like(wanted), runs, slack)
    others = [np.delete(runs, number, 0) for number in range(len(runs))]
    usual = max(_apart(one, rest, slack)[1].max() for one, rest in zip(runs, others, strict=True))
    limit = max(LEAST, TIMES * usual)
    if z.max() <= limit:
        return ""
    far = relative(repeats.sums(step, further=True)) - runs.mean(0)
    z[off <= RARELY * np.sqrt(np.square(far).mean(0))] = 0.0
    worst = int(z.max(1).argmax())
    if z[worst].max() <= limit:
        return ""
    one, what = known[worst], int(z[worst].argmax())
    return (
        f"{one.label} after step {step}: its {_SUMS[what]}"
        f" is another by {off[worst, what]:.1e}, {z[worst, what]:.0f} times what rounding scatters"
        f" it by; of no other repetition a variable is off by more than {usual:.0f} times"
    )


def _slack(wanted: Array, sizes: Array) -> Array:
    """What rounding in each element may add up to, as in `digest_error`."""
    typical = np.sqrt(wanted[:, 2:] / sizes)
    off = np.where(typical > FLOOR, FLOOR, 10 * FLOOR) * (1.0 + typical)
    sums = sizes * off
    return np.concatenate([sums, sums, sums * (2.0 * typical + off)], 1)


def _apart(one: Array, runs: Array, slack: Array) -> tuple[Array, Array]:
    """How far the sums of one run are from those of others, and in units of their scatter."""
    scatter = runs.std(0, ddof=1)
    off = np.maximum(np.abs(runs.mean(0) - one) - slack, 0.0)
    least = np.maximum(np.median(scatter, 0), SURE)
    return off, np.where(scatter > NOISE, 0.0, off / np.maximum(scatter, least))
