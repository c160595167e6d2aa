"""Diagonals of matrices, and matrices of diagonals, as Paddle 2 has them."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ops.registry import operator


@operator("diag_v2", outputs="Out", uses="X", lod="")
def diag_v2(X: Tensor, *, offset: int = 0, padding_value: float = 0.0) -> Tensor:
    """A matrix with the vector X as its diagonal, padded; of a matrix its diagonal."""
    out = torch.diag(X, offset)
    if X.dim() == 1 and padding_value:
        inside = torch.diag(torch.ones_like(X, dtype=torch.bool), offset)
        out = torch.where(inside, out, torch.full_like(out, padding_value))
    return out


@operator("diagonal", outputs="Out", uses="Input", lod="")
def diagonal(Input: Tensor, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals of the planes of two axes, as last dimension."""
    return torch.diagonal(Input, offset, axis1, axis2).contiguous()
