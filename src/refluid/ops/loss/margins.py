"""Losses of one score per sample: hinge, modified Huber, teacher and student, squared distance."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.ops.bounded import Column
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_columns, require_equal


@operator("hinge_loss", outputs="Loss", uses="Logits Labels", differentiable="Logits", amp="keep")
def hinge_loss(Logits: Column, Labels: Column) -> Tensor:
    """max(0, 1 - (2 * Labels - 1) * Logits) for labels 0 and 1."""
    require_equal("Labels", Labels, "Logits", Logits.shape)
    return (1.0 - (2.0 * Labels - 1.0) * Logits).clamp(min=0.0)


@gradient("hinge_loss")
def hinge_loss_grad(Logits: Tensor, Labels: Tensor, d_Loss: Tensor) -> Tensor:
    """-d_Loss * (2 * Labels - 1) where there is a loss."""
    side = 2.0 * Labels - 1.0
    return -d_Loss * side * (side * Logits < 1.0)


@operator(
    "modified_huber_loss",
    outputs="IntermediateVal Out",
    uses="Y IntermediateVal",
    differentiable="X",
    amp="keep",
)
def modified_huber_loss(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    """v = (2 * Y - 1) * X, and -4 * v below -1, else max(0, 1 - v)²; labels are 0 and 1."""
    require_equal("Y", Y, "X", X.shape)
    v = (2.0 * Y - 1.0) * X
    return v, torch.where(v < -1.0, -4.0 * v, (1.0 - v).clamp(min=0.0).square())


@gradient("modified_huber_loss")
def modified_huber_loss_grad(Y: Tensor, IntermediateVal: Tensor, d_Out: Tensor) -> Tensor:
    """-4 below -1, else -2 * max(0, 1 - v), times 2 * Y - 1."""
    v = IntermediateVal
    slope = torch.where(v < -1.0, -4.0, -2.0 * (1.0 - v).clamp(min=0.0))
    return d_Out * slope * (2.0 * Y - 1.0)


def _click_and_teacher(label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(whether clicked, whether there is a teacher's value, that value) as the label codes them.

    -2: no click, -1: click; v in [0, 1): no click, teacher v; 1 + v: click, teacher v.
    """
    taught = label >= 0.0
    click = ((label >= -1.0) & ~taught) | (label >= 1.0)
    teacher = torch.where(taught, label - click.to(label.dtype), torch.zeros_like(label))
    return click.to(label.dtype), taught.to(label.dtype), teacher


@operator("teacher_student_sigmoid_loss", outputs="Y", uses="X Label", differentiable="X")
def teacher_student_sigmoid_loss(
    X: Tensor,
    Label: Tensor,
    *,
    soft_max_up_bound: float = 15.0,
    soft_max_lower_bound: float = -15.0,
) -> Tensor:
    """The logistic loss of X for the click, and once more for the teacher's value if there is one.

    The bounds only cut the gradient.
    """
    require_columns(X, Label)
    require_equal("Label", Label, "X", X.shape)
    click, taught, teacher = _click_and_teacher(Label)
    return (1.0 + taught) * F.softplus(X) - X * (click + teacher)


@gradient("teacher_student_sigmoid_loss")
def teacher_student_sigmoid_loss_grad(
    X: Tensor,
    Label: Tensor,
    d_Y: Tensor,
    *,
    soft_max_up_bound: float = 15.0,
    soft_max_lower_bound: float = -15.0,
) -> Tensor:
    """0 where X is out of bounds."""
    click, taught, teacher = _click_and_teacher(Label)
    slope = (1.0 + taught) * torch.sigmoid(X) - click - teacher
    return d_Y * slope * ((soft_max_lower_bound < X) & (soft_max_up_bound > X))


@operator("squared_l2_distance", outputs="sub_result Out", uses="sub_result X Y", amp="keep")
def squared_l2_distance(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    """The squared length of X - Y for each row, (N, 1); Y has as many rows as X, or one."""
    apart = X.flatten(1) - Y.flatten(1)
    return apart, apart.square().sum(1, keepdim=True)


@gradient("squared_l2_distance")
def squared_l2_distance_grad(
    sub_result: Tensor,
    X: Tensor,
    Y: Tensor,
    d_Out: Tensor,
    *,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None]:
    """2 * d_Out * (X - Y), and its negative for Y, summed where Y has one row."""
    grad = 2.0 * d_Out * sub_result
    d_y = -grad.sum(0, keepdim=True) if Y.shape[0] == 1 != X.shape[0] else -grad
    return grad.view(X.shape) if need[0] else None, d_y.view(Y.shape) if need[1] else None
