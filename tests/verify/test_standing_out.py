"""A variable that alone is off by more than rounding scatters it is found; flips are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from refluid.verify.metrics import Deviation, digest
from refluid.verify.recordings import Array
from refluid.verify.standing_out import Key, standing_out

ELEMENTS, SCATTER = 400, 2e-3


class Network:
    """A run and its repetitions of 100 gradients, whose elements rounding changes at random.

    flips: of so many runs the variables in front of the tenth are off by ten times as much.
    """

    def __init__(self, flips: int = 0) -> None:
        self._random = np.random.RandomState(5)
        self.right = self._random.standard_normal((100, ELEMENTS))
        self._near = [self._run(number < flips) for number in range(9)]
        self._far = [self._run(flips > 0) for _ in range(8)]

    def _run(self, flipped: bool) -> Array:
        change = self._random.standard_normal(self.right.shape) * SCATTER
        change[:10] *= 10 if flipped else 1
        changed: Array = self.right * (1 + change)
        return changed

    def sums(self, step: int, *, further: bool = False) -> Mapping[Key, Sequence[Array]]:
        runs = self._far if further else self._near
        return {(step, f"w{n}"): [digest(run[n]) for run in runs] for n in range(len(self.right))}

    def another(self, flipped: bool = False) -> Array:
        """A right run by somebody else."""
        return self._run(flipped)


def _told(run: Array) -> list[Deviation]:
    """What a judge is given of a run by Fluid."""
    plain = Deviation(0, "", 0.0, 1e-3, elements=ELEMENTS)
    return [
        replace(plain, label=f"w{number}", wanted=tuple(digest(values)))
        for number, values in enumerate(run)
    ]


def test_a_right_run_has_none() -> None:
    network = Network()
    for _ in range(50):
        assert not standing_out(_told(network.another()), network)


def test_one_gradient_that_is_a_hundredth_too_large() -> None:
    network = Network()
    for number in range(0, 100, 7):
        wrong = network.another()
        wrong[number] *= 1.01
        assert f"w{number} after step 0" in standing_out(_told(wrong), network)


def test_a_shift_of_all_elements_as_by_a_dropped_decay() -> None:
    network = Network()
    wrong = network.another()
    wrong[3] += 2e-3
    assert "w3 after step 0: its sum is another" in standing_out(_told(wrong), network)


def test_flips_that_repetitions_have_too_are_none() -> None:
    network = Network(flips=1)
    assert not standing_out(_told(network.another(flipped=True)), network)
    rare = Network()
    rare._far = [rare._run(True) for _ in range(8)]  # none of the nearer repetitions has one
    assert not standing_out(_told(rare.another(flipped=True)), rare)


def test_noise_and_what_is_no_variable_say_nothing() -> None:
    network = Network()
    assert not standing_out([Deviation(0, "fetch 0", 1.0, 1e-4, fetch=True)], network)
    network._near = [run * (1 + 0.1 * network._random.standard_normal()) for run in network._near]
    wrong = network.another()
    wrong[5] *= 1.01
    assert not standing_out(_told(wrong), network)
