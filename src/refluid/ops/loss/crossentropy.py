"""Cross entropies of probabilities, and of the logits of yes or no."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from refluid.kernels.epilogues import label_loops, sigmoid_loops
from refluid.ops.indicating import indicator
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_equal, require_labels

aten = torch.ops.aten


def hard_labels(rank: int, Label: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Labels of that rank to gather with, and where they are ignored."""
    Label = Label.unsqueeze(-1) if Label.dim() < rank else Label
    ignored = Label == ignore_index
    return Label.masked_fill(ignored, 0), ignored


def _losses(X: Tensor, Label: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """-log of the probability that X gives to each label, 0 of ignored ones; the probability.

    All is finite, so that ignored ones may be multiplied by 0: three times as fast as filling them.
    """
    require_labels(X, Label, may_lack=True)
    if loops := label_loops(Label, X):
        match, signs = loops.take(X, Label, ignore_index)
    else:
        index = Label.unsqueeze(-1) if Label.dim() < X.dim() else Label
        counts = indicator(torch.ne, index, ignore_index)
        signs = counts.to(X.dtype).neg_()
        match = X.gather(-1, counts.mul_(index))
    return _tolerable_log(match).mul_(signs).view(Label.shape), match


def _tolerable_log(x: Tensor) -> Tensor:
    """log(x); of 0 it is -1e20, as in Fluid, so that a label of probability 0 costs 1e20."""
    return x.log().clamp_(min=-1e20)


def without_ignored(value: Tensor, ignored: Tensor) -> Tensor:
    return value.masked_fill(ignored, 0.0)


@operator(
    "cross_entropy",
    classes="Label",
    outputs="Y",
    uses="X Label",
    differentiable="X",
    amp="keep",
    follows={"Y": "Label"},
)
def cross_entropy(
    X: Tensor, Label: Tensor, *, soft_label: bool = False, ignore_index: int = -100
) -> Tensor:
    """-log of the probability that X (..., classes) gives to the int64 Label (..., 1) or (...).

    soft_label: -sum(Label * log(X)), Label as X. Y has the shape of a hard Label; it is 0 where
    Label is ignore_index.
    """
    if soft_label:
        require_equal("Label", Label, "X", X.shape)
        return -(Label * _tolerable_log(X)).sum(-1, keepdim=True)
    return _losses(X, Label, ignore_index)[0]


@gradient("cross_entropy")
def cross_entropy_grad(
    X: Tensor,
    Label: Tensor,
    d_Y: Tensor,
    *,
    soft_label: bool = False,
    ignore_index: int = -100,
) -> Tensor:
    """-d_Y / X at the label, zero elsewhere; soft_label: -d_Y * Label / X."""
    if soft_label:
        return -(d_Y * Label) / X
    if loops := label_loops(Label, X, d_Y):
        match, _ = loops.take(X, Label, ignore_index)
        value = torch.div(d_Y.view(match.shape), match, out=match).neg_()
        return cast(Tensor, loops.put(value, Label, X.shape[-1], ignore_index))
    index, ignored = hard_labels(X.dim(), Label, ignore_index)
    value = without_ignored(-d_Y.view(index.shape) / X.gather(-1, index), ignored)
    return torch.zeros_like(X).scatter_(-1, index, value)


@operator(
    "cross_entropy2",
    classes="Label",
    layer="cross_entropy",
    outputs="Y XShape MatchX",
    uses="Label",
    differentiable="X",
    amp="keep",
    follows={"Y": "Label"},
    without_lod="MatchX",
)
def cross_entropy2(
    X: Tensor, Label: Tensor, *, ignore_index: int = -100
) -> tuple[Tensor, Tensor, Tensor]:
    """-log of the probability that X (..., classes) gives to the int64 Label (..., 1) or (...).

    XShape is empty and carries the shape of X; MatchX is the probability chosen.
    """
    loss, match = _losses(X, Label, ignore_index)
    return loss, X.new_empty((*X.shape, 0)), match


@gradient("cross_entropy2", type="cross_entropy_grad2")
def cross_entropy_grad2(
    Label: Tensor,
    MatchX: Tensor,
    XShape: Tensor,
    d_Y: Tensor,
    *,
    ignore_index: int = -100,
) -> Tensor:
    """-d_Y / MatchX at the label, zero elsewhere."""
    if loops := label_loops(Label, MatchX, d_Y):
        value = (d_Y.view(MatchX.shape) / MatchX).neg_()
        return cast(Tensor, loops.put(value, Label, XShape.shape[-2], ignore_index))
    index, ignored = hard_labels(XShape.dim() - 1, Label, ignore_index)
    value = without_ignored((d_Y.view(index.shape) / MatchX).neg_(), ignored)
    return d_Y.new_zeros(XShape.shape[:-1]).scatter_(-1, index, value)


@operator(
    "sigmoid_cross_entropy_with_logits",
    outputs="Out",
    uses="X Label",
    differentiable="X",
    amp="keep",
)
def sigmoid_cross_entropy_with_logits(
    X: Tensor, Label: Tensor, *, normalize: bool = False, ignore_index: int = -100
) -> Tensor:
    """max(X, 0) - X * Label + log(1 + exp(-|X|)); 0 where Label is ignore_index.

    Ignored are labels that are ignore_index when cut to an integer. normalize: divided by the
    number of those that are not ignore_index as they are; NaN where there is none. (Both as paddle
    2.6.2 does for labels that are no integers.)
    """
    require_equal("Label", Label, "X", X.shape)
    if loops := sigmoid_loops(X, Label):
        loss: Tensor = loops.entropy(X, Label, ignore_index)
    else:
        kept = _counted(Label, ignore_index)
        loss = X.clamp(min=0.0).addcmul_(X, Label, value=-1.0)
        small = X.detach().abs()
        loss.sub_(aten.softplus.out(small, -1.0, out=small)).mul_(kept)
    return loss.div_(_others(Label, ignore_index)) if normalize else loss


def _counted(label: Tensor, index: int) -> Tensor:
    """0 where a label cut to an integer is that one, else 1. (`trunc` takes 60 times a `floor`.)"""
    if index:
        return (label.floor() if index > 0 else label.ceil()).ne_(index)
    return indicator(torch.ge, label.abs(), 1.0)


def _others(label: Tensor, index: int) -> Tensor:
    """How many labels are not that one, by more than 1e-6."""
    return ((label - index).abs() > 1e-6).sum()


@gradient("sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy_with_logits_grad(
    X: Tensor,
    Label: Tensor,
    d_Out: Tensor,
    *,
    normalize: bool = False,
    ignore_index: int = -100,
) -> Tensor:
    """d_Out * (sigmoid(X) - Label); 0 where Label is ignore_index."""
    if loops := sigmoid_loops(X, Label, d_Out):
        grad: Tensor = loops.gradient(X, Label, d_Out, ignore_index)
    else:
        kept = _counted(Label, ignore_index)
        grad = torch.sigmoid(X).sub_(Label).mul_(d_Out).mul_(kept)
    return grad.div_(_others(Label, ignore_index)) if normalize else grad


@operator("label_smooth", outputs="Out", uses="", differentiable="X")
def label_smooth(X: Tensor, PriorDist: Tensor | None = None, *, epsilon: float = 0.0) -> Tensor:
    """(1 - epsilon) * X + epsilon * PriorDist; without it 1 / classes, the last dimension."""
    prior = 1.0 / X.shape[-1] if PriorDist is None else PriorDist
    return X * (1.0 - epsilon) + epsilon * prior


@gradient("label_smooth")
def label_smooth_grad(d_Out: Tensor, *, epsilon: float = 0.0) -> Tensor:
    """(1 - epsilon) * d_Out."""
    return d_Out * (1.0 - epsilon)
