"""The rule by which a training run is told from one that is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from refluid.verify.judge import Fetch, judge
from refluid.verify.metrics import Deviation
from refluid.verify.recordings import Array

RATHER_WELL = {(0, "fetch 0"): 1e-6, (4, "fetch 0"): 1e-2}


@dataclass
class Repeats:
    """Repetitions that move nothing, but for what is given."""

    far: dict[Fetch, float] = field(default_factory=dict)
    near: dict[Fetch, Sequence[float]] = field(default_factory=dict)

    def digests(self, step: int, size: float, count: int) -> Mapping[Fetch, Sequence[Array]]:
        return {}

    def moved(self, step: int) -> Mapping[Fetch, float]:
        return {(at, f"w{one}"): 0.0 for at in (0, 4) for one in range(200)} | self.far

    def sizes(self, step: int) -> Mapping[Fetch, Sequence[float]]:
        return {(at, f"w{one}"): [1.0] * 9 for at in (0, 4) for one in range(200)} | self.near


def run_of(*changed: Deviation) -> list[Deviation]:
    """A run of 200 variables and a loss, right but for what is given."""
    found = {(at, f"w{one}"): _variable(at, one, 0.0) for at in (0, 4) for one in range(200)}
    found |= {(at, "fetch 0"): Deviation(at, "fetch 0", 0.0, 1e-4, fetch=True) for at in (0, 4)}
    return list((found | {one.key: one for one in changed}).values())


def _variable(step: int, index: int, error: float) -> Deviation:
    return Deviation(step, f"w{index}", error, 1e-3, wanted_size=1.0, elements=100)


@pytest.mark.parametrize("step", [0, 4])
def test_one_wrong_variable_among_many_is_found(step: int) -> None:
    wrong = run_of(_variable(step, 7, 0.9))
    assert judge(run_of(), {}, Repeats()).passed
    assert not judge(wrong, {}, Repeats()).passed
    assert not judge(wrong, RATHER_WELL, Repeats()).passed
    assert "w7 after step" in judge(wrong, RATHER_WELL, Repeats()).reason


def test_ten_times_its_own_spread_is_allowed() -> None:
    spreads = RATHER_WELL | {(4, "w7"): 0.01}
    verdict = judge(run_of(_variable(4, 7, 0.09)), spreads, Repeats())
    assert verdict.passed and verdict.ill_conditioned
    assert not judge(run_of(_variable(4, 8, 0.2)), spreads, Repeats()).passed


@pytest.mark.parametrize(("size", "right"), [(30.0, True), (0.0, False), (2000.0, False)])
@pytest.mark.parametrize("step", [0, 4])
def test_noise_is_any_noise_of_about_its_size(step: int, size: float, right: bool) -> None:
    one = replace(_variable(step, 7, 2.0), size=size, wanted_size=10.0)
    assert judge(run_of(one), RATHER_WELL | {one.key: 0.4}, Repeats()).passed is right
    nothing = replace(one, size=1e-9 * size, wanted_size=1e-8)
    assert judge(run_of(nothing), RATHER_WELL | {one.key: 0.4}, Repeats()).passed


@pytest.mark.parametrize(("size", "right"), [(3e-5, True), (3e-1, False)])
def test_noise_that_was_nothing_when_it_was_recorded(size: float, right: bool) -> None:
    """Fluid's recorded run happens to have 0, and its repetitions up to 1e-4."""
    one = replace(_variable(0, 7, size / 1e-30), size=size, wanted_size=0.0, elements=1)
    spreads = RATHER_WELL | {one.key: 1e-4 / 1e-30}
    assert judge(run_of(one), spreads, Repeats()).passed is right


def test_a_fetch_has_its_own_spread_and_no_flips() -> None:
    def off(step: int, error: float) -> list[Deviation]:
        return run_of(Deviation(step, "fetch 0", error, 1e-4, fetch=True))

    assert judge(off(4, 0.09), RATHER_WELL, Repeats()).passed
    assert not judge(off(4, 0.11), RATHER_WELL, Repeats()).passed
    assert not judge(off(0, 0.001), RATHER_WELL, Repeats()).passed


def test_what_counts_jumps_only_where_the_loss_moves() -> None:
    for step, right in ((0, False), (4, True)):
        jumped = Deviation(step, "fetch 1", 0.5, 1e-4, fetch=True, counts=True)
        assert judge([*run_of(), jumped], RATHER_WELL, Repeats()).passed is right


def test_rare_flips_are_bounded_in_number_and_size() -> None:
    few = [_variable(4, one, 0.05) for one in range(2)]
    ill = RATHER_WELL | {(4, f"w{one}"): 0.01 for one in range(100, 130)}
    assert judge(run_of(*few), ill, Repeats()).passed
    assert not judge(run_of(*few), RATHER_WELL, Repeats()).passed
    assert not judge(run_of(*few), {}, Repeats()).passed
    many = [*few, _variable(4, 2, 0.05)]
    assert not judge(run_of(*many), ill, Repeats()).passed
    large = replace(few[0], error=0.5)
    assert not judge(run_of(large), ill, Repeats()).passed
    assert judge(run_of(large), ill, Repeats(far={large.key: 0.5})).passed


@pytest.mark.parametrize("elements", [10, 100])
def test_flips_of_a_few_elements_are_those_that_repetitions_have(elements: int) -> None:
    """A root mean square of ten elements can't tell whether their gradient is 1% too large."""
    ill = RATHER_WELL | {(0, f"w{one}"): 0.01 for one in range(100, 130)}
    one = replace(_variable(0, 7, 0.01), elements=elements, size=1.0)
    assert judge(run_of(one), ill, Repeats()).passed is (elements > 16)
    assert judge(run_of(one), ill, Repeats(far={one.key: 0.01})).passed


@pytest.mark.parametrize(("size", "right"), [(1.0, True), (1.01, False)])
def test_a_gradient_too_large_by_a_hundredth_is_found_among_flips(size: float, right: bool) -> None:
    one = replace(_variable(0, 7, 0.2), wanted_size=1.0)
    spreads = RATHER_WELL | {(0, "w7"): 0.03}
    sizes = [size * (1 + 1e-3 * turn) for turn in (-1, 0, 1, 0, -1, 1, 0, 0, 0)]
    assert judge(run_of(one), spreads, Repeats(near={one.key: sizes})).passed is right
