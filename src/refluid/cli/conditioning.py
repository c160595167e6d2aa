"""Whether a training run can be compared at all: what rounding alone does to it.

Some recorded networks amplify rounding: a deep network with batch normalisation over a few
numbers, started from random weights at a high learning rate, flips a ReLU that another order of
summation would not, and a few steps later its loss is another. Two correct implementations then
differ by far more than any bound, and so does one implementation from itself on other hardware.

That is measured, not assumed: the run is repeated from initial parameters changed by as much as
rounding changes what is computed from them. A run passes if it differs from Fluid's no more than
these repetitions differ from each other: fetch by fetch, and for the many persistable variables
of a step by the quartiles and the last tenth of all of them, since a flip hits one layer here and
another there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence

import numpy as np

from refluid.cli.metrics import Deviation
from refluid.cli.recordings import Recording, Value

FACTOR = 10.0
# Where rounding moves a fetch by half its size, nothing can be said about it any more.
CHAOS = 0.5
QUANTILES = (0.25, 0.5, 0.75, 0.9)
# Some flips are rare and their effect large (RMSProp divides by the root of a mean square that is
# almost nothing): if few repetitions don't explain a difference, more are made.
REPETITIONS = (4, 12)
# Eight units in the last place: what a float32 sum of about a hundred terms loses. The sums of a
# network are longer, and there is one for each of its values.
ROUNDING = 8 * 2.0**-23


def perturbed(
    state: dict[str, Value], seed: int, noise: float = ROUNDING, fixed: Container[str] = ()
) -> dict[str, Value]:
    """The state, each float32 changed at random by at most `noise` of itself, but for `fixed`."""
    draw = np.random.RandomState(seed)
    changed = {}
    for name in sorted(state):
        array = state[name].array
        if array.dtype == np.float32:
            change = draw.uniform(-noise, noise, array.shape)
            if name not in fixed:
                array = (array.astype(np.float64) * (1.0 + change)).astype(np.float32)
        changed[name] = Value(array, state[name].lengths)
    return changed


def repetitions(
    recording: Recording, seeds: range, noise: float = ROUNDING
) -> list[dict[str, Value]]:
    """States to repeat the run from; those of optimizers, as powers of beta < 1, stay."""
    blocks = [block for program in recording.programs.values() for block in program.blocks]
    updates = [op for block in blocks for op in block.ops if op.input("Param")]
    read = {name for op in updates for name in op.input_arg_names}
    fixed = read - {name for op in updates for name in op.input("Param")}
    return [perturbed(recording.state, seed, noise, fixed) for seed in seeds]


Spreads = dict[tuple[int, str], float]


def judge(deviations: Sequence[Deviation], spreads: Spreads) -> tuple[bool, str]:
    """Whether rounding explains the deviations, and a sentence about it.

    spreads: (step, result) -> how far the repetitions moved it.
    """
    fetched = _running_spread(spreads)
    groups: defaultdict[int, list[Deviation]] = defaultdict(list)
    for one in deviations:
        if not one.fetch:
            groups[one.step].append(one)
        elif fetched[one.step] < CHAOS and one.error > max(one.bound, FACTOR * fetched[one.step]):
            return False, _refusal(f"{one.label} of step {one.step}", one.error, fetched[one.step])
    for step, group in groups.items():
        errors = [one.error for one in group]
        moved = [spreads[one.key] for one in group]
        for quantile in QUANTILES:
            error, spread = np.quantile(errors, quantile), np.quantile(moved, quantile)
            if error > max(group[0].bound, FACTOR * spread):
                what = f"{quantile:.0%} of the variables after step {step}"
                return False, _refusal(what, float(error), float(spread))
    widest = max(fetched.values(), default=0.0)
    return True, f"ill-conditioned: rounding alone moves the fetches by {widest:.1e}"


def _refusal(what: str, error: float, spread: float) -> str:
    return f"rounding alone explains {spread:.1e} of {error:.1e} in {what}"


def _running_spread(spreads: Spreads) -> dict[int, float]:
    """The widest spread of any fetch up to each step: an accuracy jumps where a loss only moves."""
    widest: dict[int, float] = {}
    for (step, label), spread in sorted(spreads.items()):
        former = widest.get(step, widest.get(step - 1, 0.0))
        widest[step] = max(former, spread if label.startswith("fetch ") else 0.0)
    return widest
