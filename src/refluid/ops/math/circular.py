"""conv_shift: each row turned by a row of weights, as in Neural Turing Machines."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ops.registry import operator
from refluid.ops.required import require_rows


@operator("conv_shift", outputs="Out", uses="X Y")
def conv_shift(X: Tensor, Y: Tensor) -> Tensor:
    """Out[b, i] = sum over j of X[b, i + j - (N - 1) / 2] * Y[b, j], X going round.

    X: (B, M); Y: (B, N), N odd.
    """
    require_rows("Y", Y, "X", len(X))
    size, width = X.shape[1], Y.shape[1]
    shift = torch.arange(width, device=X.device) - width // 2
    place = (torch.arange(size, device=X.device).unsqueeze(1) + shift) % size
    return (X[:, place] * Y.unsqueeze(1)).sum(2)
