"""Whether a training run is Fluid's but for what rounding does to it.

Some recorded networks amplify rounding: a ReLU flips that another order of summation would not
flip, and a few steps later the loss is another. How far is known of Fluid itself: a model's
`spread.json` says how far each result moves when Fluid repeats the run from parameters changed by
a few units in the last place. The rule, in the order in which it is asked:

1. A result within its bound is right, a variable if it is within `STRICT` of it: else spreads or
   repetitions by refluid must explain it. Models without spreads have no other excuse.
2. A result beyond it may be off by `FACTOR` times its own spread; what rounding moves by `NOISE`
   of itself by more, but it has Fluid's size within `SIZES`. What counts, as accuracy does, jumps:
   it is compared where rounding keeps the losses of its step within their bound.
3. Flips too rare for Fluid's few repetitions: of the variables of a step, `RARE` may be off by
   more (and one for ten that Fluid's repetitions move): by `FLIP` of what the run changed them by,
   or as far as repetitions by refluid move the very same variable; those of fewer than `FEW`
   elements by no more than that. Fetches have no such excuse.
4. The root mean square of what 3 excuses, and 2 after the first step, must still be Fluid's,
   unless rounding moves the variable by `NOISE` of itself: within `SAME`, or `SIGMAS` standard
   deviations of what repetitions by refluid give. Flips go either way and cancel there, while a
   gradient that is 1% too large is 1% larger.
5. After the first step what a variable is off by must be what rounding moves it by together with
   all others (`standing_out`).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from refluid.verify.metrics import DIGEST_BOUND, FEW, FLOOR, NOTHING, Deviation
from refluid.verify.standing_out import OwnRuns, standing_out

FACTOR = 10.0
STRICT = 1 / 16
RARE = 0.01
FLIP = 0.1
WIDER = 4.0
NOISE = 0.1
SIZES = 100.0
SAME = 0.008
SIGMAS = 5.0

Fetch = tuple[int, str]
Spreads = Mapping[Fetch, float]


class Repeats(OwnRuns, Protocol):
    """What repetitions from slightly changed parameters do to the variables up to a step."""

    def moved(self, step: int) -> Mapping[Fetch, float]:
        """The furthest from the run itself that any was whose parameters were changed `WIDER`
        times as much as by rounding, so that rare flips are among them."""

    def sizes(self, step: int) -> Mapping[Fetch, Sequence[float]]:
        """Root mean squares in the run and in those changed as much as by rounding."""


@dataclass(frozen=True)
class Verdict:
    """Whether a run passes; ill_conditioned where it does so only because rounding explains it."""

    passed: bool
    ill_conditioned: bool = False
    reason: str = ""


def judge(deviations: Sequence[Deviation], spreads: Spreads, repeats: Repeats) -> Verdict:
    """Judges a run by how far its results are from Fluid's.

    spreads: (step, result) -> how far rounding alone moves it in Fluid. repeats: asked only
    where the rule needs it.
    """
    verdict = _by_bounds(deviations, spreads, repeats)
    if verdict.passed and spreads:
        first = min((one.step for one in deviations if not one.fetch), default=0)
        early = [one for one in deviations if one.step == first]
        # What small accumulators hold is told by the parameter.
        noise = {
            one.label
            for one in early
            if one.label == (one.updated or one.label) and spread_of(one, spreads) > NOISE
        }
        some = [one for one in early if (one.updated or one.label) not in noise]
        reason = standing_out(some, repeats)
        if reason:
            return Verdict(False, reason=reason)
    return verdict


def _by_bounds(deviations: Sequence[Deviation], spreads: Spreads, repeats: Repeats) -> Verdict:
    excused = [one for one in deviations if one.error > one.bound]
    wrong = _unmoved(_doubtful(deviations, spreads), repeats)
    if wrong is not None:
        return Verdict(False, reason=_refusal(wrong, spreads))
    if not excused:
        return Verdict(True)
    beyond = [one for one in excused if one.error > allowed(one, spreads)]
    flips = [one for one in beyond if not _jumps(one, deviations, spreads)]
    refused = [one for one in flips if one.fetch] or _too_many(flips, deviations, spreads)
    if refused or not spreads:
        return Verdict(False, reason=_refusal((refused or flips)[0], spreads))
    foreign = next((one for one in excused if _is_no_such_noise(one, spreads)), None)
    if foreign is not None:
        return Verdict(False, reason=_refusal(foreign, spreads))
    large = [one for one in flips if one.error > FLIP / DIGEST_BOUND * one.bound or _is_small(one)]
    wrong = _unmoved(large, repeats)
    if wrong is not None:
        return Verdict(False, reason=_refusal(wrong, spreads))
    first = min(one.step for one in deviations if not one.fetch)
    for step in sorted({first, *(one.step for one in flips)}):
        early = [one for one in (excused if step == first else flips) if one.step == step]
        reason = _another_size([one for one in early if _has_size(one, spreads)], step, repeats)
        if reason:
            return Verdict(False, reason=reason)
    widest = max((spreads.get(one.key, 0.0) for one in excused if one.fetch), default=0.0)
    rare = f", {len(flips)} of them rare flips" if flips else ""
    return Verdict(
        True,
        True,
        f"ill-conditioned: rounding explains {len(excused)} of {len(deviations)} results{rare};"
        f" it moves fetches beyond their bound by up to {widest:.1e}",
    )


def spread_of(one: Deviation, spreads: Spreads) -> float:
    """How far rounding moves a result; of small variables at least what the metric's floor hides,
    below which spreads were not recorded."""
    hidden = FLOOR / one.wanted_size if spreads and one.wanted_size and not one.fetch else 0.0
    return spreads.get(one.key, 0.0) + hidden


def allowed(one: Deviation, spreads: Spreads) -> float:
    """How far a result may be from Fluid's."""
    spread = spread_of(one, spreads)
    # What is nothing but noise has the size that an implementation's rounding gives it.
    return max(one.bound, FACTOR * spread * (FACTOR if spread > NOISE and not one.fetch else 1.0))


def _is_no_such_noise(one: Deviation, spreads: Spreads) -> bool:
    """Whether noise has not the size of Fluid's: there is none, or nothing but a wrong number."""
    if one.fetch or spread_of(one, spreads) <= NOISE:
        return False
    found, wanted = max(one.size, FLOOR), max(one.wanted_size, FLOOR)
    # Rounding gives it any size from here to there in Fluid.
    spread = spreads.get(one.key, 0.0)
    largest = max(wanted, spread * max(one.wanted_size, NOTHING / max(one.elements, 1)))
    return not wanted / (1.0 + spread) / SIZES < found < SIZES * largest


def _doubtful(deviations: Sequence[Deviation], spreads: Spreads) -> list[Deviation]:
    """Variables within their bound that are off by more than results usually are.

    Of models with spreads only those of the first step: later ones differ as fetches do.
    """
    first = min((one.step for one in deviations if not one.fetch), default=0)
    return [
        one
        for one in deviations
        if not one.fetch
        and STRICT * one.bound < one.error <= one.bound
        and one.elements
        and (not spreads or one.step == first)
        and one.error > FACTOR * spread_of(one, spreads)
    ]


def _unmoved(some: Sequence[Deviation], repeats: Repeats) -> Deviation | None:
    """The first that no repetition by refluid moves as far."""
    if not some:
        return None
    moved = repeats.moved(max(one.step for one in some))
    return next((one for one in some if one.error > FACTOR / WIDER * moved[one.key]), None)


def _jumps(one: Deviation, deviations: Sequence[Deviation], spreads: Spreads) -> bool:
    """Whether the result counts something, and rounding moves what is counted."""
    return one.counts and any(
        FACTOR * spreads.get(other.key, 0.0) > other.bound
        for other in deviations
        if other.fetch and not other.counts and other.step == one.step
    )


def _too_many(
    flips: Sequence[Deviation], deviations: Sequence[Deviation], spreads: Spreads
) -> list[Deviation]:
    """The flips of a step that has more of them than are rare, or than one for `FACTOR` variables
    that Fluid's own repetitions move beyond their bound."""
    variables = Counter(one.step for one in deviations if not one.fetch)
    moved = Counter(
        one.step
        for one in deviations
        if not one.fetch and FACTOR * spreads.get(one.key, 0.0) > DIGEST_BOUND
    )
    found = Counter(one.step for one in flips)

    def most(step: int) -> float:
        return min(math.ceil(RARE * variables[step]), moved[step] / FACTOR)

    return [one for one in flips if found[one.step] > most(one.step)]


def _is_small(one: Deviation) -> bool:
    """Whether a variable has so few elements that its root mean square says no more than they."""
    return not one.fetch and 0 < one.elements < FEW


def _has_size(one: Deviation, spreads: Spreads) -> bool:
    """Whether its root mean square says more than its elements do."""
    return not one.fetch and one.elements >= FEW and spread_of(one, spreads) < NOISE


def _another_size(some: Sequence[Deviation], step: int, repeats: Repeats) -> str:
    """Why the root mean square of one of the variables isn't Fluid's; nothing if all are."""
    if not some:
        return ""
    repeated = repeats.sizes(step)
    sizes = {one.key: repeated[one.key] for one in some}
    # Relative to the mean. Few repetitions may agree by chance, so none counts as surer than most.
    scatter = {
        key: statistics.pstdev(found) / (statistics.mean(found) or 1.0)
        for key, found in sizes.items()
    }
    usual = statistics.median(scatter.values())
    for one in some:
        mean, sigma = statistics.mean(sizes[one.key]), max(scatter[one.key], usual)
        size = max(mean, one.wanted_size)
        off = abs(mean - one.wanted_size)
        if off > max(SAME, SIGMAS * sigma) * size + FLOOR:
            return (
                f"{one.label} after step {one.step}: its root mean square is another by"
                f" {off / size:.1e}; repetitions scatter by {sigma:.1e}"
            )
    return ""


def _refusal(one: Deviation, spreads: Spreads) -> str:
    spread = f"; rounding alone moves it by {spreads.get(one.key, 0.0):.1e}" if spreads else ""
    return (
        f"{one.label} after step {one.step}: relative error {one.error:.2e}"
        f" is above {one.bound if one.error > one.bound else STRICT * one.bound:.0e}{spread}"
    )
