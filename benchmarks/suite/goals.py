"""What is aimed at: how many times refluid's step a peer's should be, memory, the first step."""

from __future__ import annotations

from collections.abc import Mapping

OVERHEAD = {"eager": 1.5, "compile": 1.2, "paddle3": 5.0}
IMAGES = {"eager": 1.05, "compile": 1.0, "paddle3": 3.0}
RECURRENT = {"eager": 1.2, "compile": 1.2, "paddle3": 3.0}
ATTENTION = {"eager": 1.1, "compile": 1.0, "paddle3": 2.0}
SPARSE = {"eager": 2.0, "compile": 1.5, "paddle3": 3.0}

JAX = 1.2  # on every row
GOALS: Mapping[str, Mapping[str, float]] = {
    **dict.fromkeys(("mlp", "conv"), OVERHEAD),
    **dict.fromkeys(("resnet50", "vgg16", "mobilenet"), IMAGES),
    **dict.fromkeys(("lstm", "lstm_lod", "tagger", "seq2seq"), RECURRENT),
    **dict.fromkeys(("transformer", "bert"), ATTENTION),
    "ctr": {"eager": 1.3, "compile": 1.3, "paddle3": 3.0},
    **dict.fromkeys(("deepfm", "word2vec", "ncf"), SPARSE),
}
# In mixed precision; the last is refluid's own step in float32.
HALF = {"eager": 1.05, "compile": 1.05, "refluid_float32": 1.9}
HALF_GOALS: Mapping[str, Mapping[str, float]] = dict.fromkeys(
    ("resnet50", "vgg16", "mobilenet"), HALF
)
CEILING_GOALS: Mapping[str, float] = {"resnet50": 0.85, "vgg16": 0.85}
# Peak memory as a part of PyTorch eager's; of those that aren't named, the usual one.
MEMORY_GOALS: Mapping[str, float] = {"resnet50": 0.9, "bert": 0.9, "lstm": 0.9}
USUAL_MEMORY_GOAL = 0.95
# Seconds that the first step may take more than PyTorch eager's.
FIRST_STEP_GOAL = 0.3


def goals_of(name: str, half: str) -> Mapping[str, float]:
    """The goals of a workload by peer, in float32 or with `half` in mixed precision."""
    if half:
        return HALF_GOALS.get(name, {})
    known = GOALS.get(name)
    return {**known, "jax": JAX} if known else {}
