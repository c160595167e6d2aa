"""Repetitions: small changes, planned once, and what they tell of parameters."""

from __future__ import annotations

import numpy as np
import pytest

from refluid.verify.conditioning import UNIT, Repetitions, perturbed, repetition
from refluid.verify.metrics import digest
from refluid.verify.recordings import RecordedValue, Recording, load_recording
from refluid.verify.replay import repeating, run
from scripts.plant_faults.trial import beginning
from tests.golden import GOLDEN, needs_golden


@pytest.fixture
def recording() -> Recording:
    """Five parameters and their moments."""
    return beginning(load_recording(GOLDEN / "zoo" / "book_mnist_mlp"))


@pytest.mark.parametrize("size", [0.25, 1.0, 4.0])
def test_a_change_has_the_size_asked_for(size: float) -> None:
    start = np.random.RandomState(0).uniform(1.0, 2.0, 40000).astype(np.float32)
    state = {"w": RecordedValue(start, []), "zero": RecordedValue(np.zeros(8, np.float32), [])}
    change = perturbed(state, 1, size * UNIT)["w"].array.astype(np.float64) - start
    assert np.abs(change / start).max() <= (size + 1.0) * UNIT
    assert np.abs((change / start).mean()) < 0.05 * size * UNIT
    # Less than a unit changes a unit of as many elements as make it up.
    sizes = np.abs(change / start).mean() / UNIT
    assert sizes == pytest.approx(size / 2, rel=0.05 if size < 1 else 0.5)
    assert not perturbed(state, 1, size * UNIT)["zero"].array.any()


@needs_golden
def test_programs_planned_once_give_the_same_bits(recording: Recording) -> None:
    again = repeating()
    for seed in range(3):
        one = repetition(recording, seed)
        for found, wanted in zip(again(one), run(one), strict=True):
            for label, value in wanted.items():
                np.testing.assert_array_equal(found[label].array, value.array)


@needs_golden
def test_what_a_parameter_was_changed_by_is_taken_back(recording: Recording) -> None:
    """Else nothing could be told of a parameter that is updated by less than it is changed."""
    step = min(recording.digests)
    repetitions = Repetitions(recording, repeating())
    (base,) = repetitions.digests(step, 0.0, 1)[step, "fc_0.w_0"]
    for number, found in enumerate(repetitions.digests(step, 8.0, 3)[step, "fc_0.w_0"]):
        again = repetition(recording, number)
        changed = digest(again.state["fc_0.w_0"].array)
        plain = digest(run(again)[step]["fc_0.w_0"].array)
        moved = changed - digest(recording.state["fc_0.w_0"].array)
        np.testing.assert_allclose(found, plain - moved)
        # A unit in the last place is a tenth of what the parameter was changed by.
        assert np.abs(found - base)[3:].max() < 0.3 * np.abs(plain - base)[3:].max()
