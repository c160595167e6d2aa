"""A variable that rounding does not explain is found, also among flips; a right run has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from refluid.verify.metrics import Deviation, digest, root_mean_square, turned
from refluid.verify.recordings import Array
from refluid.verify.standing_out import Fetch, standing_out

VARIABLES, ELEMENTS, BEHIND = 60, 200, 25


@dataclass
class Network:
    """A run of 60 gradients. A unit of rounding changes each element by 1e-6 of itself.

    flips: each of three flips of the network, where it happens, moves the first 25 variables by so
    much of themselves; it does in half of the runs. chaos: all flip at random from 4 units on.
    """

    flips: float = 0.0
    chaos: float = 0.0
    seed: int = 5

    def __post_init__(self) -> None:
        self.draw = np.random.RandomState(self.seed)
        self.right = self.draw.standard_normal((VARIABLES, ELEMENTS))
        self.patterns = [self.flip() for _ in range(3)]

    def flip(self) -> Array:
        pattern = self.draw.standard_normal(self.right.shape) * self.flips
        pattern[BEHIND:] = 0.0
        return pattern

    def run(self, size: float) -> Array:
        noise = self.draw.standard_normal(self.right.shape)
        change = 1e-6 * size * noise + (self.chaos * noise if size >= 4 else 0.0)
        change = change + sum(one * (self.draw.random_sample() < 0.5) for one in self.patterns)
        changed: Array = self.right * (1 + change * (size > 0))
        return changed

    def digests(self, step: int, size: float, count: int) -> Mapping[Fetch, Sequence[Array]]:
        runs = [self.run(size) for _ in range(count if size else 1)]
        return {(step, f"w{n}"): [digest(run[n]) for run in runs] for n in range(VARIABLES)}


def told(run: Array) -> list[Deviation]:
    """What a judge is given of a run by Fluid."""
    plain = Deviation(0, "", 1e-5, 1e-3, elements=ELEMENTS)
    return [
        replace(
            plain,
            label=f"w{number}",
            wanted=tuple(digest(values)),
            wanted_size=root_mean_square(digest(values), ELEMENTS),
        )
        for number, values in enumerate(run)
    ]


@pytest.mark.parametrize("flips", [0.0, 0.02])
def test_a_right_run_has_none(flips: float) -> None:
    network = Network(flips)
    for _ in range(10):
        assert not standing_out(told(network.run(1.0)), network)


@pytest.mark.parametrize("flips", [0.0, pytest.param(0.02, marks=pytest.mark.slow)])
def test_one_gradient_that_is_a_hundredth_too_large(flips: float) -> None:
    network = Network(flips)
    for number in (3, 17, 50):
        wrong = network.run(1.0)
        wrong[number] *= 1.01
        assert f"w{number} after step 0" in standing_out(told(wrong), network)


def test_repetitions_that_rounding_moves_far_more_than_fluid_say_nothing() -> None:
    network = Network(chaos=0.05)
    for shift in (0.0, 1e-3):
        run = network.run(1.0)
        run[3] += shift
        found = standing_out(told(run), network)
        assert ("w3 after step 0" in found) is (shift > 0)


def test_variables_of_one_update_are_predicted_together() -> None:
    """Else what is wrong in one would be what the other leads to expect."""
    network = Network()
    for run in (network.right, *network.patterns):
        run[1] = run[0]
    wrong = network.run(1.0)
    wrong[:2] *= 1.01
    some = [replace(one, updated="w0") if one.label in ("w0", "w1") else one for one in told(wrong)]
    assert "w0 after step 0" in standing_out(some, network)


def test_a_flip_that_no_near_repetition_has_moves_many_variables() -> None:
    class Rare(Network):
        def run(self, size: float) -> Array:
            changed = super().run(size)
            return changed * (1 + unseen) if size > 8 else changed

    network = Rare()
    network.flips = 0.02
    unseen = network.flip()
    alone = np.where(np.arange(VARIABLES)[:, None] == 7, unseen, 0.0)
    assert not standing_out(told(network.run(1.0) * (1 + unseen)), network)
    assert "w7 after step 0" in standing_out(told(network.run(1.0) * (1 + alone)), network)
    assert standing_out(told(Network().run(1.0) * (1 + unseen)), Network())


def test_an_element_whose_update_rounding_turns_round() -> None:
    def flipped(start: Array) -> Array:
        after = start - 0.001 * np.sign(start)
        after[5] += 0.002 * np.sign(start[5])
        return after

    start = np.random.RandomState(2).standard_normal(ELEMENTS)
    most = turned(flipped(start), start)
    assert most == pytest.approx(0.002)
    assert turned(start * 1.01, start) == turned(start[:4] + 1, start[:4]) == 0.0
    network = Network()
    wrong = network.run(1.0)
    wrong[9, 5] += most
    assert standing_out(told(wrong), network)
    some = [replace(one, turned=most) if one.label == "w9" else one for one in told(wrong)]
    assert not standing_out(some, network)


def test_what_is_within_the_floor_of_the_metric_is_right() -> None:
    network = Network()
    wrong = network.run(1.0)
    wrong[9] *= 1.01
    assert "w9 after step 0" in standing_out(told(wrong), network)
    some = [replace(one, error=0.0) if one.label == "w9" else one for one in told(wrong)]
    assert not standing_out(some, network)


def test_noise_and_what_is_no_variable_say_nothing() -> None:
    class Noisy(Network):
        def run(self, size: float) -> Array:
            changed = super().run(size)
            changed[5] = self.draw.standard_normal(ELEMENTS) * 1e-9
            return changed

    assert not standing_out([Deviation(0, "fetch 0", 1.0, 1e-4, fetch=True)], Network())
    assert not standing_out(told(Noisy().run(1.0)), Noisy())
