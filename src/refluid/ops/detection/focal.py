"""Focal loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.bounded import Matrix
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_rows


def _positive(X: Tensor, Label: Tensor) -> tuple[Tensor, Tensor]:
    """(N, 1): the column that each row's label names, and whether it names any."""
    label = Label.reshape(-1, 1).long()
    return (label - 1).clamp(0, X.shape[1] - 1), label > 0


def _shares(X: Tensor, Label: Tensor, FgNum: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """The weights of positives (1, 1) and of a row's negatives (N, 1), none for label -1."""
    if FgNum.numel() != 1:
        raise EnforceNotMet(
            f"FgNum has to be one number, but it is {list(FgNum.shape)}: add up those of the "
            "images by layers.reduce_sum"
        )
    count = FgNum.reshape(1, 1).clamp(min=1).to(X.dtype)
    return alpha / count, (Label.reshape(-1, 1) != -1).to(X.dtype) * ((1 - alpha) / count)


def _put(out: Tensor, column: Tensor, named: Tensor, value: Tensor) -> Tensor:
    """`out` with `value` (N, 1) in the columns that are named."""
    return out.scatter_(1, column, torch.where(named, value, out.gather(1, column)))


@operator("sigmoid_focal_loss", outputs="Out", uses="X Label FgNum", differentiable="X")
def sigmoid_focal_loss(
    X: Matrix, Label: Tensor, FgNum: Tensor, *, gamma: float = 2.0, alpha: float = 0.25
) -> Tensor:
    """Out (N, C), of logits X (N, C): with p = sigmoid(X), divided by FgNum (at least 1),

    -alpha * (1 - p)^gamma * log(p) where column c is class c + 1 of the Label (N, 1), else
    -(1 - alpha) * p^gamma * log(1 - p). Label 0 is background, rows of label -1 are 0.
    """
    require_rows("Label", Label, "X", len(X))
    of_positives, of_negatives = _shares(X, Label, FgNum, alpha)
    column, named = _positive(X, Label)
    x = X.gather(1, column)
    positive = torch.sigmoid(-x).pow_(gamma).mul_(F.logsigmoid(x)).mul_(-of_positives)
    negative = torch.sigmoid(X).pow_(gamma).mul_(F.logsigmoid(-X)).mul_(-of_negatives)
    return _put(negative, column, named, positive)


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
    of_positives, of_negatives = _shares(X, Label, FgNum, alpha)
    column, named = _positive(X, Label)
    x = X.gather(1, column)
    p, rest = torch.sigmoid(x), torch.sigmoid(-x)
    falling = rest.pow(gamma) * (gamma * p * F.logsigmoid(x) - rest) * of_positives
    p, rest = torch.sigmoid(X), torch.sigmoid(-X)
    rising = torch.addcmul(p, rest, F.logsigmoid(-X), value=-gamma).mul_(p.pow_(gamma))
    return _put(rising.mul_(of_negatives), column, named, falling).mul_(d_Out)
