"""matmul(softmax(matmul(q, kᵀ) + mask), v) -> attention_of_heads(q, k, v, mask), and its gradient.

On the CPU: scores and weights, (batch, heads, length, length), are never written to memory, and
heads are taken as they lie in what was projected. Dropout that drops nothing may stand before v's
product, as in inference. Rows whose scores are all -inf give zeros for NaN, and no weight is raised
to the exp(-64) that `softmax` has at least.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from refluid.core.dtypes import VarType
from refluid.passes.pattern import Match
from refluid.passes.rewrite import Rule

_SCORES = "scores: matmul(X=q, Y=k) -> Out=scored"
_SCORES_GRAD = "scores_grad: matmul_grad(X=q, Y=k, Out@GRAD=d_scored) -> X@GRAD=d_q?, Y@GRAD=d_k?"
_ADD = "add: elementwise_add(X=scored, Y=mask) -> Out=masked"
_ADD_GRAD = "add_grad: elementwise_add_grad(X=scored, Y=mask, Out@GRAD=d_masked) -> X@GRAD=d_scored"
_DROP = "drop: dropout(X=weights, Seed=seed?) -> Out=mixing, Mask=dropped?"
_DROP_GRAD = "drop_grad: dropout_grad(Mask=dropped, Out@GRAD=d_mixing) -> X@GRAD=d_weights"
_FACTORS = (VarType.FP32, VarType.FP64)


def attributes(match: Match) -> dict[str, Any]:
    """What scores and weights are multiplied by, and whether there is no gradient."""
    alone = "scores_grad" not in match.positions
    found = {"scale": match.op("scores").attr("alpha"), "is_test": alone}
    if "drop" in match.positions:
        drop = match.op("drop")
        if drop.attr("is_test") and drop.attr("dropout_implementation") != "upscale_in_train":
            found["dropout_prob"] = drop.attr("dropout_prob")
    return found


def _of_heads(match: Match) -> str | None:
    """Why this isn't attention of heads as torch's kernel has it."""
    return _other_operators(match) or _other_shapes(match)


def _other_operators(match: Match) -> str | None:
    scores, mixed = match.op("scores"), match.op("mixed")
    if scores.attr("transpose_X") or not scores.attr("transpose_Y") or not scores.attr("alpha"):
        return f"{match.name('scored')} isn't the product of {match.name('q')} with a transpose"
    if mixed.attr("transpose_X") or mixed.attr("transpose_Y") or mixed.attr("alpha") != 1.0:
        return f"the product with {match.name('v')} is scaled, or one of a transpose"
    if match.op("softmax").attr("axis") not in (-1, 3):
        return "the softmax is along another dimension than the last"
    if "drop" in match.positions:
        drop = match.op("drop")
        trained = "drop_grad" in match.positions or not drop.attr("is_test")
        if trained and drop.attr("dropout_prob") != 0.0:
            return f"{match.name('weights')} is dropped at random"
    return None


def _other_shapes(match: Match) -> str | None:
    q, k, v = (match.var(symbol) for symbol in "qkv")
    for one in (q, k, v):
        if len(one.shape) != 4 or one.dtype not in _FACTORS or one.dtype != q.dtype:
            return f"{one.name} {list(one.shape)} has no heads, or isn't of float32 or float64"
        if one.shape[-1] != q.shape[-1] or one.shape[-1] <= 0:
            return f"{one.name} {list(one.shape)} has vectors of another size than {q.name}"
    if "add" in match.positions:
        mask = match.var("mask")
        if match.op("add").attr("axis") not in (-1, 4 - len(mask.shape)) or mask.dtype != q.dtype:
            return f"{mask.name} {list(mask.shape)} isn't added along the last dimensions"
    return None


def _rule(adds: bool, drops: bool) -> Rule:
    """The rule where a mask is added to the scores, and where weights go through a dropout."""
    summed, weights = "masked" if adds else "scored", "mixing" if drops else "weights"
    mask = ", Mask=mask" if adds else ""
    forward = [
        _SCORES,
        *([_ADD] if adds else []),
        f"softmax: softmax(X={summed}) -> Out=weights",
        *([_DROP] if drops else []),
        f"mixed: matmul(X={weights}, Y=v) -> Out=out",
    ]
    backward = [
        f"mixed_grad: matmul_grad(X={weights}, Y=v, Out@GRAD=d_out) "
        f"-> X@GRAD=d_{weights}, Y@GRAD=d_v?",
        *([_DROP_GRAD] if drops else []),
        f"softmax_grad: softmax_grad(Out=weights, Out@GRAD=d_weights) -> X@GRAD=d_{summed}",
        *([_ADD_GRAD] if adds else []),
        _SCORES_GRAD,
    ]
    return Rule(
        "\n".join(forward),
        f"attention_of_heads(Q=q, K=k, V=v{mask}) -> Out=out, Kept=kept",
        "\n".join(backward),
        f"attention_of_heads_grad(Q=q, K=k, V=v{mask}, Out=out, Kept=kept, Out@GRAD=d_out) "
        "-> Q@GRAD=d_q, K@GRAD=d_k, V@GRAD=d_v",
        attributes,
        _of_heads,
        early_backward=True,  # what comes of v's gradient may stand before the softmax's
        kept={"kept": lambda match: match.var("q").shape[:3]},
    )


RULES = tuple(_rule(adds, drops) for adds, drops in product((True, False), repeat=2))
