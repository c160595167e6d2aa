"""Attention of heads as one operator: what `fuse_attention` makes of the operators of a program."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from refluid.ops.bounded import Training
from refluid.ops.registry import gradient, operator


@operator(
    "attention_of_heads",
    outputs="Out Kept?",
    uses="Q K V Mask Out Kept",
    differentiable="Q K V",
    amp="fast",
    without_lod="Kept",
)
def attention_of_heads(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    Mask: Tensor | None = None,
    *,
    scale: float = 0.0,
    dropout_prob: float = 0.0,
    is_test: bool = False,
) -> tuple[Tensor, Tensor]:
    """(1 - dropout_prob) · softmax(scale · Q · Kᵀ + Mask) · V of (N, heads, length, size).

    scale: 1 / sqrt(size) where it is 0. dropout_prob: of a dropout in inference that scales.
    is_test: there is no gradient. Kept is what that is made of, besides the others.
    """
    from refluid.kernels.attention import attention  # few programs attend

    out, kept = attention(Q, K, V, Mask, scale or Q.shape[-1] ** -0.5, alone=is_test)
    return (out * (1.0 - dropout_prob) if dropout_prob else out), kept


@gradient("attention_of_heads")
def attention_of_heads_grad(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    Mask: Tensor | None,
    Out: Tensor,
    Kept: Tensor,
    d_Out: Tensor,
    *,
    scale: float = 0.0,
    dropout_prob: float = 0.0,
    is_test: Training = False,
    need: Sequence[bool] = (True, True, True),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of Q, K and V."""
    from refluid.kernels.attention import gradients

    if dropout_prob:
        factor = 1.0 - dropout_prob
        Out, d_Out = Out / factor if factor else Out, d_Out * factor
    return gradients(Q, K, V, Mask, Out, Kept, d_Out, scale or Q.shape[-1] ** -0.5, need)
