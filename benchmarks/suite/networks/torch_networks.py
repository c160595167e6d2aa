"""All workloads' networks in PyTorch: name to class."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn

from benchmarks.suite.networks import (
    torch_attention,
    torch_clicks,
    torch_recurrent,
    torch_vision,
)

NETWORKS: Mapping[str, Callable[[], nn.Module]] = {
    "mlp": torch_vision.Mlp,
    "conv": torch_vision.Conv,
    "resnet50": torch_vision.ResNet50,
    "mobilenet": torch_vision.MobileNet,
    "vgg16": torch_vision.Vgg16,
    "lstm": torch_recurrent.LstmModel,
    "lstm_lod": torch_recurrent.LstmLodModel,
    "tagger": torch_recurrent.Tagger,
    "transformer": torch_attention.Transformer,
    "bert": torch_attention.Bert,
    "seq2seq": torch_recurrent.Seq2Seq,
    "ctr": torch_clicks.Ctr,
    "deepfm": torch_clicks.DeepFm,
    "ncf": torch_clicks.Ncf,
    "word2vec": torch_clicks.Word2Vec,
}
