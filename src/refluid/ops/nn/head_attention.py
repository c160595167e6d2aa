"""Attention of heads as one kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ops.registry import operator


@operator(
    "attention_of_heads",
    outputs="Out",
    uses="Q K V Mask",
    differentiable="Q K V",
    amp="fast",
    lod="",
)
def attention_of_heads(Q: Tensor, K: Tensor, V: Tensor, Mask: Tensor | None = None) -> Tensor:
    """softmax(Q · Kᵀ / sqrt(size) + Mask) · V of (N, heads, length, size)."""
    return torch.nn.functional.scaled_dot_product_attention(Q, K, V, Mask)
