"""cross_entropy(softmax(x), label) -> softmax_with_cross_entropy(x, label), and its gradient.

By logarithms of the softmax, without its gradient as a matrix of its own. Probabilities below
exp(-64), which `softmax` raises to that, count as what they are, so such losses exceed 64.
"""

from __future__ import annotations

from typing import Any

from refluid.passes.pattern import Match
from refluid.passes.rewrite import Rule

_SOFTMAX = "softmax: softmax(X=x) -> Out=p"
_SOFTMAX_GRAD = "softmax_grad: softmax_grad(Out=p, Out@GRAD=d_p) -> X@GRAD=d_x"
_FUSED = "softmax_with_cross_entropy(Logits=x, Label=label) -> Softmax=p, Loss=loss"
_FUSED_GRAD = (
    "softmax_with_cross_entropy_grad(Label=label, Softmax=p, Loss@GRAD=d_loss) -> Logits@GRAD=d_x"
)


def attributes(match: Match) -> dict[str, Any]:
    """Those of the cross entropy, along the last dimension."""
    loss = match.op("loss")
    return {
        "soft_label": bool(loss.attr("soft_label")),
        "ignore_index": loss.attr("ignore_index"),
        "axis": -1,
    }


def along_last(match: Match) -> str | None:
    """The softmax must be along the last dimension, and labels be given as the fused one's."""
    logits, label = match.var("x"), match.var("label")
    if match.op("softmax").attr("axis") not in (-1, len(logits.shape) - 1):
        return "the softmax is along another dimension than the last"
    if len(label.shape) != len(logits.shape):
        return f"{label.name} {list(label.shape)} has no dimension for the classes"
    return None


def _rule(loss: str, loss_grad: str) -> Rule:
    return Rule(
        f"{_SOFTMAX}\n{loss}",
        _FUSED,
        f"{loss_grad}\n{_SOFTMAX_GRAD}",
        _FUSED_GRAD,
        attributes,
        along_last,
        early=True,
    )


RULES = (
    _rule(
        "loss: cross_entropy2(X=p, Label=label) -> Y=loss, XShape=shape, MatchX=chosen",
        "loss_grad: cross_entropy_grad2(Label=label, MatchX=chosen, XShape=shape, Y@GRAD=d_loss) "
        "-> X@GRAD=d_p",
    ),
    _rule(
        "loss: cross_entropy(X=p, Label=label) -> Y=loss",
        "loss_grad: cross_entropy_grad(X=p, Label=label, Y@GRAD=d_loss) -> X@GRAD=d_p",
    ),
)
