"""What rounding alone does to a training run, measured by repeating it.

The run is repeated from initial parameters changed by as much as rounding changes what is
computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace

import numpy as np

from refluid.verify.judge import WIDER, Key
from refluid.verify.metrics import digest, digest_error, root_mean_square
from refluid.verify.recordings import Array, Recording, Value

REPETITIONS = 8
# Eight units in the last place: what a float32 sum of about a hundred terms loses. The sums of a
# network are longer, and there is one for each of its values.
ROUNDING = 8 * 2.0**-23

Digest = tuple[Array, int]
Results = list[dict[str, Value]]
Run = Callable[[Recording], Results]


def perturbed(
    state: Mapping[str, Value], seed: int, noise: float = ROUNDING, fixed: Container[str] = ()
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


def repetition(recording: Recording, seed: int, noise: float = ROUNDING) -> Recording:
    """The recording from changed parameters; what optimizers keep, as powers of beta < 1, stays."""
    blocks = [block for program in recording.programs.values() for block in program.blocks]
    updates = [op for block in blocks for op in block.ops if op.input("Param")]
    read = {name for op in updates for name in op.input_arg_names}
    fixed = read - {name for op in updates for name in op.input("Param")}
    return replace(recording, state=perturbed(recording.state, seed, noise, fixed))


class Repetitions:
    """Repeats a recording up to the step asked for, as a judge needs it."""

    def __init__(self, recording: Recording, run: Run) -> None:
        self._recording, self._run = recording, run
        self._known: dict[tuple[int, float], list[dict[Key, Digest]]] = {}

    def moved(self, step: int) -> dict[Key, float]:
        """How far any run from further changed parameters is from the run itself."""
        (base,), far = self._digests(step, 0.0), self._digests(step, WIDER * ROUNDING)
        return {
            key: max(_moved(one[key], base[key]) for one in far) for key in base if key[0] <= step
        }

    def sizes(self, step: int) -> dict[Key, list[float]]:
        """Root mean squares in the run itself and in its repetitions."""
        runs = self._digests(step, 0.0) + self._digests(step, ROUNDING)
        return {
            key: [root_mean_square(*one[key]) for one in runs] for key in runs[0] if key[0] <= step
        }

    def sums(self, step: int, *, further: bool = False) -> dict[Key, list[Array]]:
        """Digests in the run itself and in its repetitions, or in further changed ones."""
        if further:
            runs = self._digests(step, WIDER * ROUNDING)
        else:
            runs = self._digests(step, 0.0) + self._digests(step, ROUNDING)
        return {key: [one[key][0] for one in runs] for key in runs[0] if key[0] <= step}

    def _digests(self, step: int, noise: float) -> list[dict[Key, Digest]]:
        """Of all variables compared, in runs up to a step with parameters changed so much."""
        longer = [one for one in self._known if one[0] >= step and one[1] == noise]
        key = min(longer, default=(step, noise))
        if key not in self._known:
            short = replace(self._recording, steps=self._recording.steps[: step + 1])
            seeds = range(REPETITIONS if noise else 1)
            self._known[key] = [
                _digests(self._run(repetition(short, seed, noise))) for seed in seeds
            ]
        return self._known[key]


def _digests(results: Results) -> dict[Key, Digest]:
    return {
        (number, label): (digest(value.array), value.array.size)
        for number, found in enumerate(results)
        for label, value in found.items()
        if not label.startswith("fetch ") and value.array.size
    }


def _moved(one: Digest, base: Digest) -> float:
    """Relative to the smaller of both: either could have been the recorded one."""
    return max(digest_error(one[0], *base), digest_error(base[0], *one))
