"""Sines and cosines that tell a row's place in its sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.ops.infer import infer_like
from refluid.ops.registry import gradient, operator
from refluid.ops.sequence.levels import sequences_of


def _places(X: Tensor, lod_X: Levels) -> Tensor:
    if X.dim() == 3:
        return torch.arange(X.shape[1], device=X.device)
    return sequences_of(X, lod_X).positions(X.device)


@operator(
    "add_position_encoding",
    gradient_lod="none",
    outputs="Out",
    uses="",
    infer=infer_like("Out", "X"),
)
def add_position_encoding(
    X: Tensor, *, lod_X: Levels, alpha: float = 1.0, beta: float = 1.0
) -> Tensor:
    """alpha * X + beta * sines, then cosines, of place / 10000 ** (i / half).

    X: (batch, length, width), or (rows, width) with sequences.
    """
    if alpha < 0.0 or beta < 0.0:
        raise EnforceNotMet(f"alpha and beta have to be 0 or more but are {alpha} and {beta}")
    half = X.shape[-1] // 2
    place = _places(X, lod_X).to(X.dtype).unsqueeze(1)
    power = torch.arange(half, dtype=X.dtype, device=X.device) / max(half - 1, 1)
    angle = place / torch.pow(10000.0, power)
    return alpha * X + beta * torch.cat((angle.sin(), angle.cos()), 1)


@gradient("add_position_encoding")
def add_position_encoding_grad(d_Out: Tensor, *, alpha: float = 1.0) -> Tensor:
    """alpha * d_Out."""
    return d_Out * alpha
