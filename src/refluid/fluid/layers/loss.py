"""Losses. Each gives one value per sample unless said otherwise; take the `mean` to minimise."""

from __future__ import annotations

from typing import Any

from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.layers.ctc import edit_distance, warpctc
from refluid.fluid.layers.metric_losses import center_loss, npair_loss
from refluid.fluid.layers.reduction import reduce_mean
from refluid.fluid.layers.sampled import (
    hsigmoid,
    nce,
    sampled_softmax_with_cross_entropy,
)
from refluid.ir.variable import Variable

__all__ = [
    "bpr_loss",
    "center_loss",
    "cross_entropy",
    "edit_distance",
    "hsigmoid",
    "huber_loss",
    "kldiv_loss",
    "margin_rank_loss",
    "mse_loss",
    "nce",
    "npair_loss",
    "rank_loss",
    "sampled_softmax_with_cross_entropy",
    "sigmoid_cross_entropy_with_logits",
    "softmax_with_cross_entropy",
    "square_error_cost",
    "teacher_student_sigmoid_loss",
    "warpctc",
]

IGNORE = -100


def cross_entropy(
    input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = IGNORE
) -> Variable:
    """-log of the probability that `input` (..., classes) gives to the label; shape (..., 1).

    label: classes, int64 of shape (..., 1), of which `ignore_index` gives 0; or, if `soft_label`,
    a distribution of the shape of `input`.
    """
    if not soft_label:
        return cross_entropy2(input, label, ignore_index)
    attrs = {"soft_label": soft_label, "ignore_index": ignore_index}
    inputs = {"X": [input], "Label": [label]}
    return LayerHelper("cross_entropy").emit("cross_entropy", inputs, attrs, slot="Y")


def cross_entropy2(input: Variable, label: Variable, ignore_index: int = IGNORE) -> Variable:
    """`cross_entropy` for classes, keeping the matched probabilities for its gradient."""
    helper = LayerHelper("cross_entropy2")
    out, shape, match = (helper.create_variable_for_type_inference(input.dtype) for _ in range(3))
    return helper.emit(
        "cross_entropy2",
        {"X": [input], "Label": [label]},
        {"ignore_index": ignore_index},
        slot="Y",
        out=out,
        more={"MatchX": [match], "XShape": [shape]},
    )


def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = IGNORE,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """`cross_entropy` of the softmax of `logits` along `axis`, computed together.

    return_softmax: returns `(loss, softmax)`.
    """
    helper = LayerHelper("softmax_with_cross_entropy")
    softmax = helper.create_variable_for_type_inference(logits.dtype)
    loss = helper.create_variable_for_type_inference(logits.dtype)
    attrs = {
        "soft_label": soft_label,
        "ignore_index": ignore_index,
        "numeric_stable_mode": numeric_stable_mode,
        "axis": axis,
    }
    inputs, more = {"Logits": logits, "Label": label}, {"Softmax": softmax}
    helper.emit("softmax_with_cross_entropy", inputs, attrs, slot="Loss", out=loss, more=more)
    return (loss, softmax) if return_softmax else loss


def sigmoid_cross_entropy_with_logits(
    x: Variable,
    label: Variable,
    ignore_index: int = IGNORE,
    name: str | None = None,
    normalize: bool = False,
) -> Variable:
    """Cross entropy of the sigmoid of each element of `x` with labels in [0, 1].

    Labels equal to `ignore_index` give 0; normalize: divides by the number of others.
    """
    helper = LayerHelper("sigmoid_cross_entropy_with_logits", name=name)
    attrs = {"ignore_index": ignore_index, "normalize": normalize}
    inputs = {"X": x, "Label": label}
    return helper.emit("sigmoid_cross_entropy_with_logits", inputs, attrs)


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label) squared, of the shape of `input`."""
    helper = LayerHelper("square_error_cost")
    difference = helper.emit("elementwise_sub", {"X": [input], "Y": [label]})
    return helper.emit("square", {"X": [difference]})


def mse_loss(input: Variable, label: Variable) -> Variable:
    """The mean of (input - label) squared, shape (1,)."""
    return reduce_mean(square_error_cost(input, label))


def log_loss(
    input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None
) -> Variable:
    """-label log(input + epsilon) - (1 - label) log(1 - input + epsilon), shape (N, 1)."""
    inputs = {"Predicted": [input], "Labels": [label]}
    helper = LayerHelper("log_loss", name=name)
    return helper.emit("log_loss", inputs, {"epsilon": epsilon}, slot="Loss")


def huber_loss(input: Variable, label: Variable, delta: float) -> Variable:
    """Half the squared error up to `delta`, linear beyond."""
    helper = LayerHelper("huber_loss")
    residual = helper.create_variable_for_type_inference(input.dtype)
    inputs, more = {"X": input, "Y": label}, {"Residual": residual}
    return helper.emit("huber_loss", inputs, {"delta": delta}, more=more)


def smooth_l1(
    x: Variable,
    y: Variable,
    inside_weight: Variable | None = None,
    outside_weight: Variable | None = None,
    sigma: float | None = None,
) -> Variable:
    """Per sample the sum of a loss that is quadratic near 0 and linear beyond; shape (N, 1).

    The weights, of the shape of `x`, multiply the difference and the loss.
    """
    helper = LayerHelper("smooth_l1_loss")
    difference = helper.create_variable_for_type_inference(x.dtype)
    weights = {"InsideWeight": inside_weight, "OutsideWeight": outside_weight}
    inputs = {"X": x, "Y": y} | {slot: w for slot, w in weights.items() if w is not None}
    attrs = {"sigma": 1.0 if sigma is None else sigma}
    return helper.emit("smooth_l1_loss", inputs, attrs, more={"Diff": difference})


def kldiv_loss(
    x: Variable, target: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """target (log(target) - x), `x` being log-probabilities.

    reduction: "mean" or "sum" over all, "batchmean" (sum / N), or "none".
    """
    inputs = {"X": x, "Target": target}
    helper = LayerHelper("kldiv_loss", name=name)
    return helper.emit("kldiv_loss", inputs, {"reduction": reduction}, slot="Loss")


def rank_loss(
    label: Variable, left: Variable, right: Variable, name: str | None = None
) -> Variable:
    """RankNet: log(1 + exp(left - right)) - label (left - right), all (N, 1)."""
    inputs = {"Label": label, "Left": left, "Right": right}
    return LayerHelper("rank_loss", name=name).emit("rank_loss", inputs)


def margin_rank_loss(
    label: Variable,
    left: Variable,
    right: Variable,
    margin: float = 0.1,
    name: str | None = None,
) -> Variable:
    """max(0, -label (left - right) + margin), all (N, 1)."""
    helper = LayerHelper("margin_rank_loss", name=name)
    out = helper.create_variable_for_type_inference(left.dtype)
    active = helper.create_variable_for_type_inference(left.dtype)
    inputs = {"Label": label, "X1": left, "X2": right}
    more = {"Activated": active}
    return helper.emit("margin_rank_loss", inputs, {"margin": margin}, out=out, more=more)


def bpr_loss(input: Variable, label: Variable, name: str | None = None) -> Variable:
    """Bayesian personalised ranking of the label among all classes; shape (N, 1)."""
    inputs = {"X": [input], "Label": [label]}
    return LayerHelper("bpr_loss", name=name).emit("bpr_loss", inputs, slot="Y")


def teacher_student_sigmoid_loss(
    input: Variable,
    label: Variable,
    soft_max_up_bound: float = 15.0,
    soft_max_lower_bound: float = -15.0,
) -> Variable:
    """Click loss and teacher's score together, as coded in the label; shape (N, 1)."""
    attrs = {
        "soft_max_lower_bound": float(soft_max_lower_bound),
        "soft_max_up_bound": float(soft_max_up_bound),
    }
    helper = LayerHelper("teacher_student_sigmoid_loss")
    inputs = {"X": [input], "Label": [label]}
    out = helper.create_variable(dtype=input.dtype)
    return helper.emit("teacher_student_sigmoid_loss", inputs, attrs, slot="Y", out=out)
