"""Recorded models that pass only because rounding explains how far they are from Fluid.

The list may only shrink: a model that isn't on it has to pass without an excuse.
"""

from __future__ import annotations

import pytest
import torch

from refluid.core.threads import use_threads
from refluid.verify.recordings import load_recording
from refluid.verify.replay import replay
from tests.golden import (
    BY_ONE_THREAD,
    FAULTS_OF_FLUID,
    GOLDEN,
    needs_golden,
    recorded_models,
)

LISTED = """
attgan book_resnet_cifar10 book_vgg_bn_drop cgan cyclegan darknet53 dcgan deeplabv3p dpn68
dureader_bidaf efficientnet_b0_dropconnect googlenet icnet metric_arcmargin metric_triplet
mobilenet_ssd mobilenet_v1 mobilenet_v3_large ppdet_blazeface ppdet_cascade_rcnn_r50_fpn
ppdet_ssd_vgg16 ppdet_yolov3_mobilenet res2net50 resnet18 resnet50 resnet50_nhwc resnet50_vc
resnext50 se_resnext50 shufflenet_v2 video_attention_lstm video_nextvlad video_tsm video_tsn
xception41 xception41_deeplab yolov3
"""
# By rounding that is within the bound on one processor and just beyond it on another: a bias of
# `mmpms` is 1.2e-3 off with an AMD EPYC's kernels, where Fluid's repetitions are 0.6e-3 off.
ON_SOME_PROCESSORS = {"mmpms"}
ILL_CONDITIONED = frozenset(LISTED.split()) | ON_SOME_PROCESSORS
LONGEST = 38


def test_the_list_only_shrinks() -> None:
    assert len(ILL_CONDITIONED) <= LONGEST


@needs_golden
def test_only_models_whose_rounding_matters_are_on_it() -> None:
    for model in ILL_CONDITIONED:
        assert (GOLDEN / "zoo" / model / "spread.json").is_file(), model


@needs_golden
@pytest.mark.slow
@pytest.mark.parametrize("model", sorted(recorded_models()))
def test_recorded_model(model: str) -> None:
    with use_threads(1 if model in BY_ONE_THREAD else torch.get_num_threads()):
        outcome = replay(load_recording(GOLDEN / "zoo" / model), model)
    if model in FAULTS_OF_FLUID:
        assert not outcome.passed, f"{model} passes: take it out of FAULTS_OF_FLUID"
        pytest.xfail(FAULTS_OF_FLUID[model])
    assert outcome.passed, outcome.reason
    assert model in ILL_CONDITIONED or not outcome.ill_conditioned, outcome.reason
