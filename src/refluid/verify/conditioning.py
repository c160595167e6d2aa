"""What rounding alone does to a training run, measured by repeating it.

The run is repeated from initial parameters changed by as much as rounding changes what is
computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from refluid.ir.operator import Operator
from refluid.verify.judge import WIDER, Fetch
from refluid.verify.metrics import PART, digest, digest_error, root_mean_square
from refluid.verify.recordings import Array, RecordedValue, Recording

REPETITIONS = 8
# Eight units in the last place: what a float32 sum of about a hundred terms loses. The sums of a
# network are longer, and there is one for each of its values.
UNIT = 2.0**-23
ROUNDING = 8 * UNIT


Digest = tuple[Array, int]
RunResults = list[dict[str, RecordedValue]]
Run = Callable[[Recording], RunResults]


def perturbed(
    state: Mapping[str, RecordedValue],
    seed: int,
    noise: float = ROUNDING,
    fixed: Container[str] = (),
) -> dict[str, RecordedValue]:
    """The state, each float32 changed at random by at most `noise` of itself, but for `fixed`.

    What is less than a unit in the last place changes that unit of as many elements.
    """
    draw = np.random.Generator(np.random.SFC64(seed))
    change = _units_in_the_last_place if noise < 2 * UNIT else _shares
    changed = {}
    for name in sorted(state):
        array = state[name].array
        if array.dtype == np.float32 and name not in fixed:
            flat = array.ravel()
            parts = [flat[start : start + PART] for start in range(0, flat.size, PART)]
            found = np.concatenate([change(part, noise, draw) for part in parts] or [flat])
            array = found.reshape(array.shape)
        changed[name] = RecordedValue(array, state[name].lengths)
    return changed


def _shares(part: Array, noise: float, draw: np.random.Generator) -> Array:
    change = draw.integers(-(2**15), 2**15, part.size, np.int16)
    return np.asarray(part + part * (change * np.float32(noise / 2**15)))


def _units_in_the_last_place(part: Array, noise: float, draw: np.random.Generator) -> Array:
    """Up or down, the likelier the nearer. Zeros, and what is no number, stay."""
    bits = part.view(np.int32)
    units = (bits & (2**23 - 1)) * np.float32(UNIT) + np.float32(1)
    units *= draw.integers(-(2**15), 2**15, part.size, np.int16) * np.float32(noise / UNIT / 2**15)
    units += draw.integers(0, 2**16, part.size, np.uint16) * np.float32(2.0**-16)
    size = np.abs(part)
    ordinary = (size >= np.finfo(np.float32).tiny) & (size < np.inf)
    bits = bits + np.floor(units).astype(np.int32) * ordinary
    return np.asarray(bits.view(np.float32))


def repetition(recording: Recording, seed: int, noise: float = ROUNDING) -> Recording:
    """The recording from changed parameters; what optimizers keep, as powers of beta < 1, stays."""
    updates = _updates(recording)
    read = {name for op in updates for name in op.input_arg_names}
    fixed = read - _parameters(recording)
    return replace(recording, state=perturbed(recording.state, seed, noise, fixed))


def _updates(recording: Recording) -> list[Operator]:
    blocks = [block for program in recording.programs.values() for block in program.blocks]
    return [op for block in blocks for op in block.ops if op.input("Param")]


def _parameters(recording: Recording) -> set[str]:
    return {name for op in _updates(recording) for name in op.input("Param")}


@dataclass(frozen=True)
class _Repetition:
    """Digests of all variables compared; by how much those of parameters were changed before."""

    digests: dict[Fetch, Digest]
    changed: dict[str, Array]


class Repetitions:
    """Repeats a recording up to the step asked for, as a judge needs it."""

    def __init__(self, recording: Recording, run: Run) -> None:
        self._recording, self._run = recording, run
        self._known: dict[tuple[int, float], list[_Repetition]] = {}

    def moved(self, step: int) -> dict[Fetch, float]:
        """How far any run from further changed parameters is from the run itself."""
        (base,), far = self._digests(step, 0.0), self._digests(step, WIDER * ROUNDING)
        return {
            key: max(_moved(one[key], base[key]) for one in far) for key in base if key[0] <= step
        }

    def sizes(self, step: int) -> dict[Fetch, list[float]]:
        """Root mean squares in the run itself and in its repetitions."""
        runs = self._digests(step, 0.0) + self._digests(step, ROUNDING)
        return {
            key: [root_mean_square(*one[key]) for one in runs] for key in runs[0] if key[0] <= step
        }

    def digests(self, step: int, size: float, count: int) -> dict[Fetch, list[Array]]:
        """Digests in repetitions from parameters changed by `size` units in the last place, what
        each parameter was changed by taken back; in the run itself where that is 0."""
        runs = self._runs(step, size * UNIT, count)[: count if size else 1]
        return {
            key: [one.digests[key][0] - one.changed.get(key[1], 0.0) for one in runs]
            for key in runs[0].digests
            if key[0] <= step
        }

    def _digests(self, step: int, noise: float) -> list[dict[Fetch, Digest]]:
        return [one.digests for one in self._runs(step, noise, REPETITIONS)[:REPETITIONS]]

    def _runs(self, step: int, noise: float, count: int) -> list[_Repetition]:
        """At least so many, up to a step, with parameters changed so much."""
        count = count if noise else 1
        enough = [key for key, runs in self._known.items() if len(runs) >= count]
        longer = [one for one in enough if one[0] >= step and one[1] == noise]
        key = min(longer, default=(step, noise))
        known = self._known.setdefault(key, [])
        for number in range(len(known), count):
            again = self._repetition(number, noise)
            results = self._run(replace(again, steps=again.steps[: key[0] + 1]))
            known.append(_Repetition(_digests(results), self._changed(again) if noise else {}))
        return known

    def _changed(self, again: Recording) -> dict[str, Array]:
        """By how much the digests of parameters were changed before the run."""
        return {
            name: digest(again.state[name].array) - before for name, before in self._start.items()
        }

    @cached_property
    def _start(self) -> dict[str, Array]:
        """Digests of the parameters before the run."""
        start = self._recording.state
        return {
            name: digest(start[name].array)
            for name in _parameters(self._recording)
            if name in start and start[name].array.dtype == np.float32
        }

    def _repetition(self, number: int, noise: float) -> Recording:
        # Smaller changes are others, not the same made smaller.
        seed = number if noise >= ROUNDING else number + round(1000 * noise / UNIT)
        return repetition(self._recording, seed, noise)


def _digests(results: RunResults) -> dict[Fetch, Digest]:
    return {
        (number, label): (digest(value.array), value.array.size)
        for number, found in enumerate(results)
        for label, value in found.items()
        if not label.startswith("fetch ") and value.array.size
    }


def _moved(one: Digest, base: Digest) -> float:
    """Relative to the smaller of both: either could have been the recorded one."""
    return max(digest_error(one[0], *base), digest_error(base[0], *one))
