"""The step times aimed at: for each workload, how many times a peer's refluid's should be."""

from __future__ import annotations

from collections.abc import Mapping

OVERHEAD = {"eager": 1.5, "compile": 1.2, "paddle3": 5.0}
IMAGES = {"eager": 1.05, "compile": 1.0, "paddle3": 3.0}
RECURRENT = {"eager": 1.2, "compile": 1.2, "paddle3": 3.0}
ATTENTION = {"eager": 1.1, "compile": 1.0, "paddle3": 2.0}
SPARSE = {"eager": 2.0, "compile": 1.5, "paddle3": 3.0}

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
MEMORY_GOALS: Mapping[str, float] = {"resnet50": 0.9, "bert": 0.9, "lstm": 0.9}
FIRST_STEP_GOAL = 2.0


def goals_of(name: str, half: str) -> Mapping[str, float]:
    """The goals of a workload by peer, in float32 or with `half` in mixed precision."""
    return (HALF_GOALS if half else GOALS).get(name, {})
