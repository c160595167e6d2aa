"""Losses. Each gives one value per sample unless said otherwise; take the `mean` to minimise."""

from __future__ import annotations

from functools import cache
from typing import Any

from refluid.build import How, backend, op
from refluid.fluid.functions.math.reduction import reduce_mean
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

IGNORE = -100
_USUAL = {"ignore_index": IGNORE, "axis": -1}


@cache
def _kept() -> Any:
    from refluid.eager import KeptAttributes  # programs do without

    return KeptAttributes(_USUAL)


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
    return op("cross_entropy", inputs, attrs)


def cross_entropy2(input: Variable, label: Variable, ignore_index: int = IGNORE) -> Variable:
    """`cross_entropy` for classes, keeping the matched probabilities for its gradient."""
    return op("cross_entropy2", {"X": [input], "Label": [label]}, {"ignore_index": ignore_index})


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
    if backend().fuses and not soft_label and not return_softmax:
        if (
            ignore_index == IGNORE
            and axis == -1
            and axis.__class__ is ignore_index.__class__ is int
        ):
            how = _kept()
        else:
            how = {"ignore_index": ignore_index, "axis": axis}
        return op("softmax_loss", {"Logits": logits, "Label": label}, how)
    attrs = {
        "soft_label": soft_label,
        "ignore_index": ignore_index,
        "numeric_stable_mode": numeric_stable_mode,
        "axis": axis,
    }
    inputs, makes = {"Logits": logits, "Label": label}, ("Softmax", "Loss")
    softmax, loss = op("softmax_with_cross_entropy", inputs, attrs, makes)
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
    attrs = {"ignore_index": ignore_index, "normalize": normalize}
    inputs = {"X": x, "Label": label}
    return op("sigmoid_cross_entropy_with_logits", inputs, attrs, name=name)


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label) squared, of the shape of `input`."""
    helper = LayerHelper("square_error_cost")
    difference = op("elementwise_sub", {"X": [input], "Y": [label]}, layer=helper)
    return op("square", {"X": [difference]}, layer=helper)


def mse_loss(input: Variable, label: Variable) -> Variable:
    """The mean of (input - label) squared, shape (1,)."""
    return reduce_mean(square_error_cost(input, label))


def log_loss(
    input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None
) -> Variable:
    """-label log(input + epsilon) - (1 - label) log(1 - input + epsilon), shape (N, 1)."""
    inputs = {"Predicted": [input], "Labels": [label]}
    return op("log_loss", inputs, {"epsilon": epsilon}, name=name)


def huber_loss(input: Variable, label: Variable, delta: float) -> Variable:
    """Half the squared error up to `delta`, linear beyond."""
    inputs, makes = {"X": input, "Y": label}, ("Residual", "Out")
    return op("huber_loss", inputs, {"delta": delta}, makes)[1]


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
    inputs = {"X": x, "Y": y, "InsideWeight": inside_weight, "OutsideWeight": outside_weight}
    attrs = {"sigma": 1.0 if sigma is None else sigma}
    return op("smooth_l1_loss", inputs, attrs, ("Diff", "Out"))[1]


def kldiv_loss(
    x: Variable, target: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """target (log(target) - x), `x` being log-probabilities.

    reduction: "mean" or "sum" over all, "batchmean" (sum / N), or "none".
    """
    inputs = {"X": x, "Target": target}
    return op("kldiv_loss", inputs, {"reduction": reduction}, name=name)


def rank_loss(
    label: Variable, left: Variable, right: Variable, name: str | None = None
) -> Variable:
    """RankNet: log(1 + exp(left - right)) - label (left - right), all (N, 1)."""
    inputs = {"Label": label, "Left": left, "Right": right}
    return op("rank_loss", inputs, name=name)


def margin_rank_loss(
    label: Variable,
    left: Variable,
    right: Variable,
    margin: float = 0.1,
    name: str | None = None,
) -> Variable:
    """max(0, -label (left - right) + margin), all (N, 1)."""
    inputs, makes = {"Label": label, "X1": left, "X2": right}, ("Out", "Activated")
    how: How = {"dtype": left.dtype, "name": name}
    return op("margin_rank_loss", inputs, {"margin": margin}, makes, **how)[0]


def bpr_loss(input: Variable, label: Variable, name: str | None = None) -> Variable:
    """Bayesian personalised ranking of the label among all classes; shape (N, 1)."""
    inputs = {"X": [input], "Label": [label]}
    return op("bpr_loss", inputs, name=name)


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
    return op("teacher_student_sigmoid_loss", inputs, attrs, out=out, layer=helper)
