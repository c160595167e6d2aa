"""Whether a training run can be compared at all: what rounding alone does to it.

Some recorded networks amplify rounding: a deep network with batch normalisation over a few
numbers, started from random weights at a high learning rate, flips a ReLU that another order of
summation would not, and a few steps later its loss is another. Two correct implementations then
differ by far more than any bound, and so does one implementation from itself on other hardware.

That is measured, not assumed: the run is repeated from initial parameters changed by less than
their own rounding. A result that differs from Fluid's by no more than `FACTOR` times what these
repetitions differ from each other tells nothing against the implementation. The first step's
results must keep the bound all the same.
"""

from __future__ import annotations

import numpy as np

from refluid.cli.recordings import Recording, Value

FACTOR = 10.0
REPETITIONS = 3
_ULP = 2.0**-23


def perturbed(state: dict[str, Value], seed: int) -> dict[str, Value]:
    """The state with each float32 moved by at most half a unit in its last place, or one."""
    draw = np.random.RandomState(seed)
    changed = {}
    for name in sorted(state):
        array = state[name].array
        if array.dtype == np.float32:
            noise = draw.uniform(-_ULP, _ULP, array.shape)
            array = (array.astype(np.float64) * (1.0 + noise)).astype(np.float32)
        changed[name] = Value(array, state[name].lengths)
    return changed


def repetitions(recording: Recording) -> list[dict[str, Value]]:
    """States to repeat the run from."""
    return [perturbed(recording.state, seed) for seed in range(REPETITIONS)]
