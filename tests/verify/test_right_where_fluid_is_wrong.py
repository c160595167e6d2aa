"""Where Fluid's CPU is wrong: refluid's gradients are the finite differences of its losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from refluid.verify.recordings import RecordedValue, Recording, load_recording
from refluid.verify.replay import steps
from tests.golden import GOLDEN, needs_golden

FOLDER = GOLDEN / "faults" / "fluid_wrong"
CASES = sorted(path.name for path in FOLDER.glob("*"))
STEP = 1e-2
LOOKED_AT = 8


def _results(recording: Recording) -> dict[str, RecordedValue]:
    return steps(recording)[0]


def _loss(recording: Recording) -> float:
    out = _results(recording)["fetch 0"].array.astype(np.float64)
    return float(out[0] if out.size == 1 else (out**2).mean())


def _moved(recording: Recording, name: str, place: tuple[int, ...], by: float) -> Recording:
    (step,) = recording.steps
    given = step.feeds if name in step.feeds else recording.state
    array = given[name].array.copy()
    array[place] += by
    changed = dict(given) | {name: RecordedValue(array, given[name].lengths)}
    if name in step.feeds:
        return replace(recording, steps=[replace(step, feeds=changed)])
    return replace(recording, state=changed)


@needs_golden
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_finite_differences(case: str) -> None:
    recording = load_recording(FOLDER / case / "000.npz")
    (step,), found = recording.steps, _results(recording)
    random = np.random.RandomState(0)
    for number, fetched in enumerate(step.fetches):
        name = fetched.removesuffix("@GRAD")
        if name == fetched:
            continue
        gradient = found[f"fetch {number}"].array
        for _ in range(LOOKED_AT):
            place = tuple(random.randint(size) for size in gradient.shape)
            up, down = (_loss(_moved(recording, name, place, by)) for by in (STEP, -STEP))
            wanted = (up - down) / (2 * STEP)
            assert abs(gradient[place] - wanted) < 5e-3 * np.abs(gradient).max() + 1e-4
