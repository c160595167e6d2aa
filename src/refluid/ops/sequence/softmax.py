"""Softmax among the rows of each sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.ops.infer import infer_like
from refluid.ops.registry import gradient, operator
from refluid.ops.sequence.levels import sequences_of
from refluid.ops.sequence.padded import pad_rows, unpad_rows


@operator(
    "sequence_softmax",
    gradient_lod="undeclared",
    outputs="Out",
    extra={"use_cudnn": False, "data_format": "AnyLayout"},
    infer=infer_like("Out", "X"),
)
def sequence_softmax(X: Tensor, *, lod_X: Levels) -> Tensor:
    """exp(x) over its sum in the sequence; X is (n,) or (n, 1)."""
    sequences = sequences_of(X, lod_X)
    if X.numel() != X.shape[0]:
        raise EnforceNotMet(f"X must have one element per row but has shape {tuple(X.shape)}")
    padded = pad_rows(X.flatten(), sequences, sequences.longest, float("-inf"))
    return unpad_rows(torch.softmax(padded, 1), sequences).reshape(X.shape)


@gradient("sequence_softmax")
def sequence_softmax_grad(X: Tensor, Out: Tensor, d_Out: Tensor, *, lod_X: Levels) -> Tensor:
    """Out times d_Out less its mean, weighted by Out, in the sequence."""
    sequences = sequences_of(X, lod_X)
    owners = sequences.owners(X.device)
    weighted = (Out * d_Out).flatten()
    means = weighted.new_zeros(len(sequences)).index_add_(0, owners, weighted)
    return Out * (d_Out - means[owners].reshape(X.shape))
