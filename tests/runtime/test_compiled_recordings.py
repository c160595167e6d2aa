"""Steps compiled by TorchInductor itself give what Fluid gave, on every recorded model.

Every one is compiled at once instead of in the background, and used whether it is faster or not.
How much rounding moves a run is measured on recorded steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from refluid.core import flags
from refluid.core.threads import use_threads
from refluid.runtime.code import Code
from refluid.runtime.recorded.trial import Holder, Trial
from refluid.verify import replay as replaying
from refluid.verify.conditioning import Repetitions, Run, RunResults
from refluid.verify.recordings import Recording, load_recording
from tests.golden import (
    BY_ONE_THREAD,
    FAULTS_OF_FLUID,
    FLIPS,
    GOLDEN,
    needs_golden,
    recorded_models,
)

MODELS = sorted(recorded_models())


@needs_golden
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("model", MODELS)
def test_compiled_recording(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Any] = []

    def at_once(trial: Trial, holder: Holder) -> Code:
        if trial._compiled is None:
            trial._work()
        assert trial._compiled is not None, trial._failed
        used.append(trial)
        return trial._compiled

    def repetitions(recording: Recording, run: Run) -> Repetitions:
        def recorded(one: Recording) -> RunResults:
            with flags.override({"FLAGS_refluid_tier": "recorded"}):
                return run(one)

        return Repetitions(recording, recorded)

    monkeypatch.setattr(replaying, "Repetitions", repetitions)
    monkeypatch.setattr(Trial, "next", at_once)
    recording = load_recording(GOLDEN / "zoo" / model)
    recording = replace(recording, steps=recording.steps[: FLIPS.get(model)])
    threads = 1 if model in BY_ONE_THREAD else torch.get_num_threads()
    with flags.override({"FLAGS_refluid_tier": "compiled"}), use_threads(threads):
        outcome = replaying.replay(recording, model)
    if model in FAULTS_OF_FLUID:
        assert not outcome.passed, f"{model} passes: take it out of FAULTS_OF_FLUID"
        pytest.xfail(FAULTS_OF_FLUID[model])
    assert outcome.passed, outcome.reason
    if not used:
        pytest.skip("is never compiled")
