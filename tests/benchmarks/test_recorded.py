"""Recorded models are timed beside Fluid's own figures."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks import recorded
from benchmarks.recorded import Compared, compare, fluids, markdown, measured, runs_of
from refluid.core import flags
from refluid.verify.recordings import load_recording
from tests.golden import GOLDEN, needs_golden, recorded_models


def test_fluids_fastest_way_counts() -> None:
    known = {"plain_ms": {"cpu_median": 3.0}, "cached_ms": {"cpu_median": 0.5}, "compiled_ms": None}
    assert fluids(known) == 0.0005


def test_the_page_says_who_is_behind() -> None:
    found = [Compared("fast", 0.004, [0.001, 0.002, 0.003]), Compared("slow", 0.001, [0.004])]
    text = markdown(found)
    assert "Of 2 models refluid is 1.12 times as fast in the median" in text
    assert "behind in 1." in text
    assert text.index("| slow | 1 | 4 (4 to 4) | 0.25 |") < text.index("| fast | 4 | 2 (1 to 3) |")


@needs_golden
@pytest.mark.parametrize("name", ["book_fit_a_line", "senta_lstm"])
def test_models_train_while_they_are_timed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "SECONDS", 0.0)
    times = measured(load_recording(GOLDEN / "zoo" / name))
    assert len(times) == recorded.LEAST
    assert min(times) > 0


@needs_golden
def test_each_is_timed_in_a_process_of_its_own() -> None:
    before, name = torch.get_num_threads(), "book_fit_a_line"
    (one,) = compare([name], "interpreted")
    assert torch.get_num_threads() == before
    assert one.name == name
    assert one.theirs == fluids(recorded_models()[name])
    assert len(one.ours) >= recorded.LEAST


@needs_golden
@pytest.mark.parametrize("name", ["book_fit_a_line", "senta_lstm"])
def test_what_is_timed_is_what_was_recorded(name: str) -> None:
    recording = load_recording(GOLDEN / "zoo" / name)
    with flags.override({"FLAGS_refluid_fluid_cpu_faults": True}):
        for run, step in zip(runs_of(recording), recording.steps, strict=True):
            for place, found in enumerate(run()):
                wanted = step.expected[str(place)].array
                np.testing.assert_allclose(np.array(found), wanted, rtol=1e-4, atol=1e-6)
