"""Recorded models train in mixed precision with Fluid's float32 losses, within 1e-2."""

from __future__ import annotations

import pytest

from refluid.verify.metrics import relative_error
from refluid.verify.recordings import load_recording
from refluid.verify.replay import run
from tests.choices import often
from tests.fluid.mixed_recordings import in_mixed_precision
from tests.golden import GOLDEN, needs_golden

MODELS = [
    "bert_pretrain",
    "book_label_semantic_roles",
    "book_mnist_cnn",
    "book_recommender",
    "cgan",
    "chinese_ner",
    "ctr_dnn",
    "dcgan",
    "deepfm",
    "lm_static",
    "mmoe",
    "quora_decatt",
    "senta_lstm",
    "transformer",
    "video_nextvlad",
    "xdeepfm",
]


@needs_golden
@pytest.mark.parametrize("model", often(MODELS, {*MODELS} - {"dcgan", "cgan"}))
def test_losses_are_near_fluids(model: str) -> None:
    recording = load_recording(GOLDEN / "zoo" / model)
    programs = {tag: in_mixed_precision(one) for tag, one in recording.programs.items()}
    recording.programs = {tag: one for tag, one in programs.items() if one is not None}
    assert len(recording.programs) == len(programs)
    types = [op.type for one in recording.programs.values() for op in one.global_block().ops]
    assert types.count("cast") > 2
    recording.steps, recording.digests = recording.steps[:3], {}
    for step, found in zip(recording.steps, run(recording), strict=True):
        assert relative_error(found["fetch 0"].array, step.expected["0"].array) < 1e-2
