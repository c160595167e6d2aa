"""Accuracy."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.registry import operator


@operator("accuracy", outputs="Accuracy Correct Total", uses=None, without_lod="Correct Total")
def accuracy(Out: Tensor, Indices: Tensor, Label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Share of rows in whose Indices (rows, k) the int64 Label (rows, 1) occurs.

    Accuracy is float32 of shape (1,); Correct and Total are int32 counts of shape (1,).
    """
    rows = Indices.shape[0]
    if Label.numel() != rows:
        raise EnforceNotMet(
            f"Label {list(Label.shape)} has to have one number for each of {rows} rows"
        )
    correct = (Indices == Label.reshape(rows, 1)).any(1).sum().reshape(1)
    return (
        correct.float() / rows,
        correct.int(),
        torch.full((1,), rows, dtype=torch.int32, device=Indices.device),
    )
