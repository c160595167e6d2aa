"""Focal loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.ops.registry import gradient, operator


def _weights(X: Tensor, Label: Tensor, FgNum: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """(N, C): the weights of positives and of negatives."""
    label = Label.reshape(-1, 1)
    hit = label == torch.arange(1, X.shape[1] + 1, device=X.device)
    count = FgNum.reshape(1, 1).clamp(min=1).to(X.dtype)
    return alpha * hit / count, (1 - alpha) * (~hit & (label != -1)) / count


@operator("sigmoid_focal_loss", outputs="Out", uses="X Label FgNum", differentiable="X")
def sigmoid_focal_loss(
    X: Tensor, Label: Tensor, FgNum: Tensor, *, gamma: float = 2.0, alpha: float = 0.25
) -> Tensor:
    """Out (N, C), of logits X (N, C): with p = sigmoid(X), divided by FgNum (at least 1),

    -alpha * (1 - p)^gamma * log(p) where column c is class c + 1 of the Label (N, 1), else
    -(1 - alpha) * p^gamma * log(1 - p). Label 0 is background, rows of label -1 are 0.
    """
    positive, negative = _weights(X, Label, FgNum, alpha)
    p, rest = torch.sigmoid(X), torch.sigmoid(-X)
    loss = positive * rest.pow(gamma) * -F.logsigmoid(X)
    return loss + negative * p.pow(gamma) * -F.logsigmoid(-X)


@gradient("sigmoid_focal_loss")
def sigmoid_focal_loss_grad(
    X: Tensor,
    Label: Tensor,
    FgNum: Tensor,
    d_Out: Tensor,
    *,
    gamma: float = 2.0,
    alpha: float = 0.25,
) -> Tensor:
    """d_Out times the derivative of either case."""
    positive, negative = _weights(X, Label, FgNum, alpha)
    p, rest = torch.sigmoid(X), torch.sigmoid(-X)
    rising = p.pow(gamma) * (p - gamma * rest * F.logsigmoid(-X))
    falling = rest.pow(gamma) * (gamma * p * F.logsigmoid(X) - rest)
    return d_Out * (positive * falling + negative * rising)
