"""Losses that torch has no function for."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def bpr_loss(x: Tensor, label: Tensor) -> Tensor:
    """Mean of -log(sigmoid(score of the label - another score)) over the others (rows, 1)."""
    label = label.reshape(-1, 1)
    costs = F.softplus(x - x.gather(1, label))
    return (costs.sum(1, keepdim=True) - costs.gather(1, label)) / (x.shape[1] - 1)
