"""All workloads' networks as Fluid programs: name to function of fluid and fed variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.suite.networks import (
    fluid_attention,
    fluid_clicks,
    fluid_recurrent,
    fluid_vision,
)

NETWORKS: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "mlp": fluid_vision.mlp,
    "conv": fluid_vision.conv,
    "resnet50": fluid_vision.resnet50,
    "mobilenet": fluid_vision.mobilenet,
    "vgg16": fluid_vision.vgg16,
    "lstm": fluid_recurrent.lstm,
    "lstm_lod": fluid_recurrent.lstm_lod,
    "tagger": fluid_recurrent.tagger,
    "transformer": fluid_attention.transformer,
    "bert": fluid_attention.bert,
    "seq2seq": fluid_recurrent.seq2seq,
    "ctr": fluid_clicks.ctr,
    "deepfm": fluid_clicks.deepfm,
    "ncf": fluid_clicks.ncf,
    "word2vec": fluid_clicks.word2vec,
}
