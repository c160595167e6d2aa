"""Softmax and the cross entropies."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from refluid.ops.registry import gradient, operator

aten = torch.ops.aten
_LEAST = math.exp(-64.0)


@operator(
    "softmax",
    outputs="Out",
    uses="Out",
    amp="keep",
    extra={"use_cudnn": False, "data_format": "AnyLayout", "use_mkldnn": False, "is_test": False},
)
def softmax(X: Tensor, *, axis: int = -1) -> Tensor:
    """exp(X) normalised to sum 1 along `axis`; no result is below exp(-64), as in Fluid."""
    return torch.softmax(X, axis).clamp_min_(_LEAST)


@gradient("softmax")
def softmax_grad(Out: Tensor, d_Out: Tensor, *, axis: int = -1) -> Tensor:
    """Out * (d_Out - sum(d_Out * Out)) along `axis`."""
    grad: Tensor = aten._softmax_backward_data(d_Out, Out, axis, Out.dtype)
    return grad


def _index(Label: Tensor, ignore_index: int) -> tuple[Tensor, Tensor | None]:
    """Labels to gather with, and where they are to be ignored (None where nowhere can be)."""
    if ignore_index < 0 and ignore_index == -100:
        return Label, None
    ignored = Label == ignore_index
    return Label.masked_fill(ignored, 0), ignored


@operator("cross_entropy2", outputs="Y XShape MatchX", uses="Label", differentiable="X", amp="keep")
def cross_entropy2(
    X: Tensor, Label: Tensor, *, ignore_index: int = -100
) -> tuple[Tensor, Tensor, Tensor]:
    """-log of the probability that X (..., classes) gives to the int64 Label (..., 1).

    XShape is empty and carries the shape of X; MatchX is the probability chosen.
    """
    index, ignored = _index(Label, ignore_index)
    match = X.gather(-1, index)
    loss = match.log().neg_()
    if ignored is not None:
        loss = loss.masked_fill(ignored, 0.0)
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
    index, ignored = _index(Label, ignore_index)
    value = (d_Y / MatchX).neg_()
    if ignored is not None:
        value = value.masked_fill(ignored, 0.0)
    return d_Y.new_zeros(XShape.shape[:-1]).scatter_(-1, index, value)
