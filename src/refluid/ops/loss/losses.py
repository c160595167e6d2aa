"""Losses of single elements or rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import one_of
from refluid.ir.operator import Operator
from refluid.ops.infer import infer_like
from refluid.ops.lod_rules import keeps_rows
from refluid.ops.registry import OperatorDef, gradient, operator
from refluid.ops.required import require_columns, require_equal, require_labels
from refluid.ops.signature import Long

_EACH = 0  # aten's code of reduction="none"


@operator("log_loss", outputs="Loss", uses="Predicted Labels", differentiable="Predicted")
def log_loss(Predicted: Tensor, Labels: Tensor, *, epsilon: float) -> Tensor:
    """-Labels * log(Predicted + epsilon) - (1 - Labels) * log(1 - Predicted + epsilon)."""
    require_columns(Predicted, Labels)
    require_equal("Labels", Labels, "Predicted", Predicted.shape)
    unlikely = (1.0 - Labels) * torch.log(1.0 - Predicted + epsilon)
    return -(Labels * torch.log(Predicted + epsilon)) - unlikely


@gradient("log_loss")
def log_loss_grad(Predicted: Tensor, Labels: Tensor, d_Loss: Tensor, *, epsilon: float) -> Tensor:
    """d_Loss * ((1 - Labels) / (1 - Predicted + epsilon) - Labels / (Predicted + epsilon))."""
    unlikely = (1.0 - Labels) / (1.0 - Predicted + epsilon)
    return d_Loss * (unlikely - Labels / (Predicted + epsilon))


@operator(
    "huber_loss",
    gradient_lod="none",
    outputs="Residual Out",
    uses="Residual",
    follows={"Out": "Y", "Residual": "Y"},
)
def huber_loss(X: Tensor, Y: Tensor, *, delta: float) -> tuple[Tensor, Tensor]:
    """r²/2 where |r| is at most delta, else delta * (|r| - delta/2), of Residual r = Y - X."""
    require_equal("Y", Y, "X", X.shape, declared=True)
    return Y - X, F.huber_loss(X, Y, reduction="none", delta=delta)


@gradient("huber_loss")
def huber_loss_grad(
    Residual: Tensor, d_Out: Tensor, *, delta: float, need: Sequence[bool] = (True, True)
) -> tuple[Tensor | None, Tensor | None]:
    """d_Y = d_Out times the residual, cut at ±delta; d_X the opposite."""
    zero = Residual.new_zeros(())
    if not need[1]:  # as if the zero were predicted, and the residual right
        given = d_Out, zero.expand_as(Residual), Residual
        return torch.ops.aten.huber_loss_backward(*given, _EACH, delta), None
    grad = torch.ops.aten.huber_loss_backward(d_Out, Residual, zero, _EACH, delta)
    return -grad if need[0] else None, grad


def _weighted(value: Tensor, weight: Tensor | None) -> Tensor:
    return value if weight is None else value * weight


def _infer_smooth_l1(definition: OperatorDef, op: Operator) -> None:
    """By X alone: the number of rows that Fluid infers for targets may be a wrong one."""
    for slot in ("Diff", "Out"):
        infer_like(slot, "X")(definition, op)
    for name in op.output("Out"):
        out = op.block.var_recursive(name)
        if out.has_description():
            out.describe(shape=(out.shape[0], 1), dtype=None)


@operator(
    "smooth_l1_loss",
    gradient_lod="none",
    outputs="Diff Out",
    uses="Diff InsideWeight OutsideWeight",
    differentiable="X Y",
    infer=_infer_smooth_l1,
    lod="",
)
def smooth_l1_loss(
    X: Tensor,
    Y: Tensor,
    InsideWeight: Tensor | None = None,
    OutsideWeight: Tensor | None = None,
    *,
    sigma: float = 1.0,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor]:
    """Out (rows, 1): sums of OutsideWeight * f(Diff), with Diff = InsideWeight * (X - Y).

    f(d) is (sigma * d)² / 2 where |d| < 1 / sigma², else |d| - 1 / (2 * sigma²). A Diff that
    nobody reads isn't made.
    """
    require_equal("Y", Y, "X", X.shape)
    square = sigma * sigma
    diff = None
    if need[0] or InsideWeight is not None:
        diff = _weighted(X - Y, InsideWeight)
    given = (X, Y) if diff is None else (diff, diff.new_zeros(()))
    loss = torch.ops.aten.smooth_l1_loss(*given, _EACH, 1.0 / square)
    loss = _weighted(loss, OutsideWeight)
    return diff, loss.reshape(len(X), X.shape[1:].numel()).sum(1, keepdim=True)


@gradient("smooth_l1_loss")
def smooth_l1_loss_grad(
    Diff: Tensor,
    InsideWeight: Tensor | None,
    OutsideWeight: Tensor | None,
    d_Out: Tensor,
    *,
    sigma: float = 1.0,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor, Tensor | None]:
    """d_X = d_Out * both weights * f'(Diff), d_Y the opposite."""
    square, d_out = sigma * sigma, d_Out.reshape(-1, *[1] * (Diff.dim() - 1))
    slope = Diff.clamp(-1.0 / square, 1.0 / square)
    grad = _weighted(_weighted(slope, InsideWeight), OutsideWeight) * (d_out * square)
    return grad, -grad if need[1] else None


@operator("bce_loss", outputs="Out", uses="X Label", differentiable="X")
def bce_loss(X: Tensor, Label: Tensor) -> Tensor:
    """-Label * log(X) - (1 - Label) * log(1 - X), logarithms at least -100; X in [0, 1]."""
    require_equal("Label", Label, "X", X.shape)
    entropy = torch.nn.functional.binary_cross_entropy
    one = entropy(X, torch.ones_like(X), reduction="none")
    none = entropy(X, torch.zeros_like(X), reduction="none")
    return Label * one + (1.0 - Label) * none


@gradient("bce_loss")
def bce_loss_grad(X: Tensor, Label: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out * (X - Label) / ((1 - X) * X), divided by 1e-12 at least."""
    return d_Out * (X - Label) / ((1.0 - X) * X).clamp_(min=1e-12)


@operator("kldiv_loss", outputs="Loss", uses="X Target", differentiable="X", lod_by=keeps_rows)
def kldiv_loss(
    X: Tensor,
    Target: Tensor,
    *,
    reduction: Annotated[str, one_of("none", "batchmean", "sum", "mean")] = "mean",
) -> Tensor:
    """Target * (log(Target) - X), 0 where Target isn't positive.

    reduction: `none`, or `sum`, `mean`, `batchmean` of shape (1,).
    """
    require_equal("Target", Target, "X", X.shape, declared=True)
    loss = Target.log().sub_(X).mul_(Target).masked_fill_(Target <= 0, 0.0)
    if reduction == "none":
        return loss
    return (loss.sum() / _shares(X, reduction)).reshape(1)


def _shares(X: Tensor, reduction: str) -> int:
    """What a sum is divided by."""
    return {"none": 1, "sum": 1, "mean": X.numel(), "batchmean": X.shape[0]}[reduction]


@gradient("kldiv_loss")
def kldiv_loss_grad(
    X: Tensor, Target: Tensor, d_Loss: Tensor, *, reduction: str = "mean"
) -> Tensor:
    """-d_Loss * Target where that is positive, by the number of elements that a mean is of."""
    return Target.clamp(min=0.0).mul_(d_Loss * (-1.0 / max(_shares(X, reduction), 1)))


@operator(
    "nll_loss",
    classes="Label",
    gradient_lod="none",
    outputs="Out Total_weight",
    uses="X Label Weight Total_weight",
    differentiable="X",
    lod="",
)
def nll_loss(
    X: Tensor,
    Label: Tensor,
    Weight: Tensor | None = None,
    *,
    ignore_index: Long = -100,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """-Weight[Label] * X[Label] for log probabilities X (N, C, ...) and int64 Label (N, ...).

    reduction: `none`, or `sum` or `mean` (by the Total_weight of all labels), of shape (1,).
    """
    if not X.is_meta and X.shape[:1] + X.shape[2:] != Label.shape:
        raise EnforceNotMet(
            f"X {list(X.shape)} without its classes has not the shape of Label, {list(Label.shape)}"
        )
    weight = X.new_ones(X.shape[1]) if Weight is None else Weight
    kept = Label != ignore_index
    label = Label.masked_fill(~kept, 0)
    each = weight[label] * kept
    loss = -X.gather(1, label.unsqueeze(1)).squeeze(1) * each
    total = each.sum().reshape(1).detach()
    if reduction == "none":
        return loss, torch.zeros_like(total)
    return loss.sum().reshape(1) / (total if reduction == "mean" else 1.0), total


@gradient("nll_loss")
def nll_loss_grad(
    X: Tensor,
    Label: Tensor,
    Weight: Tensor | None,
    Total_weight: Tensor,
    d_Out: Tensor,
    *,
    ignore_index: Long = -100,
    reduction: str = "mean",
) -> Tensor:
    """-Weight[Label] * d_Out at the label, divided by the total weight for a mean."""
    weight = X.new_ones(X.shape[1]) if Weight is None else Weight
    kept = Label != ignore_index
    label = Label.masked_fill(~kept, 0)
    value = -(weight[label] * kept) * d_Out
    if reduction == "mean":
        value = value / Total_weight
    return torch.zeros_like(X).scatter_(1, label.unsqueeze(1), value.unsqueeze(1))


@operator(
    "rank_loss",
    gradient_lod="none",
    outputs="Out",
    uses="Label Left Right",
    differentiable="Left Right",
    lod="",
)
def rank_loss(Label: Tensor, Left: Tensor, Right: Tensor) -> Tensor:
    """log(1 + exp(Left - Right)) - Label * (Left - Right)."""
    require_equal("Right", Right, "Left", Left.shape)
    require_equal("Label", Label, "Left", Left.shape)
    gap = Left - Right
    return torch.nn.functional.softplus(gap) - Label * gap


@operator(
    "margin_rank_loss", outputs="Activated Out", uses="Label Activated", differentiable="X1 X2"
)
def margin_rank_loss(
    X1: Tensor, X2: Tensor, Label: Tensor, *, margin: float = 0.0
) -> tuple[Tensor, Tensor]:
    """max(0, margin - Label * (X1 - X2)); Activated is 1 where that is positive, else 0."""
    require_equal("X2", X2, "X1", X1.shape)
    require_equal("Label", Label, "X1", X1.shape)
    out = (margin - Label * (X1 - X2)).clamp(min=0.0)
    return (out > 0).to(X1.dtype), out


@gradient("margin_rank_loss")
def margin_rank_loss_grad(
    Label: Tensor, Activated: Tensor, d_Out: Tensor, *, need: Sequence[bool] = (True, True)
) -> tuple[Tensor, Tensor]:
    """d_X1 = -d_Out * Label where the loss is positive, d_X2 the opposite."""
    grad = d_Out * Label * Activated
    return -grad, grad


@operator("bpr_loss", classes="Label", outputs="Y", uses="X Label", differentiable="X", amp="keep")
def bpr_loss(X: Tensor, Label: Tensor) -> Tensor:
    """Mean over the other classes j of log(1 + exp(X[j] - X[label])), of shape (rows, 1)."""
    require_labels(X, Label)
    gap = X - X.gather(-1, Label)
    every = torch.nn.functional.softplus(gap).sum(-1, keepdim=True)
    own = torch.nn.functional.softplus(torch.zeros_like(gap[..., :1]))
    return (every - own) / (X.shape[-1] - 1)
