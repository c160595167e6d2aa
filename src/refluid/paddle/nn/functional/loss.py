"""Losses of classes, and cross entropies. `reduction` is mean, sum or none."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.core.dtypes import FLOATING, VarType, as_dtype
from refluid.fluid.functions.loss import losses as fluid
from refluid.ir.variable import Variable
from refluid.paddle.nn.functional.reducing import reduced, require_reduction
from refluid.paddle.tensor.making import cast_to, dimension, rank_of


def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """Cross entropy of the softmax of `logits` with classes, or with a distribution."""
    if not soft_label and rank_of(label) == rank_of(logits) - 1:
        label = op("unsqueeze2", {"X": label}, {"axes": [dimension(logits, axis)]})
    return fluid.softmax_with_cross_entropy(
        logits, label, soft_label, ignore_index, numeric_stable_mode, return_softmax, axis
    )


def cross_entropy(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Variable:
    """Cross entropy of the softmax of `input` with classes, or with a distribution.

    weight: one for each class; the mean is then that of the weights. ignore_index: the class that
    counts for nothing. use_softmax=False: `input` are probabilities.
    """
    require_reduction(reduction, "cross_entropy")
    if soft_label and ignore_index >= 0 and ignore_index != -100:
        raise ValueError(
            "When soft_label == True, the value of 'ignore_index' in cross_entropy"
            f" should be '-100', but received {ignore_index}."
        )
    if label_smoothing > 0.0:
        label = _smooth(input, label, soft_label, label_smoothing)
        soft_label = True
    place = dimension(input, axis)
    is_flat = not soft_label and rank_of(label) == rank_of(input) - 1
    if is_flat:
        label = op("unsqueeze2", {"X": label}, {"axes": [place]})
    if soft_label and as_dtype(label.dtype) not in FLOATING:
        label = cast_to(label, input.dtype)
    if use_softmax:
        loss = fluid.softmax_with_cross_entropy(input, label, soft_label, ignore_index, axis=axis)
    else:
        attrs = {"soft_label": soft_label, "ignore_index": ignore_index}
        loss = op("cross_entropy", {"X": input, "Label": label}, attrs)
    if weight is not None:
        return _by_weight(loss, label, weight, ignore_index, reduction, soft_label, place, is_flat)
    if reduction == "mean" and ignore_index >= 0 and not soft_label:
        kept = _kept(label, ignore_index, loss.dtype)
        total, count = (op("reduce_sum", {"X": one}, {"reduce_all": True}) for one in (loss, kept))
        return op("elementwise_div", {"X": total, "Y": _not_zero(count)}, name=name)
    loss = reduced(loss, reduction, name)
    if reduction == "none" and is_flat:
        loss = op("squeeze2", {"X": loss}, {"axes": [place]})
    return loss


def _smooth(input: Variable, label: Variable, soft_label: bool, amount: float) -> Variable:
    classes = input.shape[-1]
    if not soft_label:
        if list(label.shape) == list(input.shape) and classes > 1:
            return op("label_smooth", {"X": label}, {"epsilon": float(amount)})
        if rank_of(label) == rank_of(input):
            label = op("squeeze2", {"X": label}, {"axes": [rank_of(label) - 1]})
        label = op("one_hot_v2", {"X": label}, {"depth": classes}, dtype=VarType.FP32)
        label = cast_to(label, input.dtype)
    return op("label_smooth", {"X": label}, {"epsilon": float(amount)})


def _kept(label: Variable, ignore_index: int, dtype: Any) -> Variable:
    """1 where a label counts, else 0."""
    from refluid.paddle.tensor.making import constant

    other = constant(ignore_index, label.dtype)
    kept = cast_to(op("not_equal", {"X": label, "Y": other}, dtype=VarType.BOOL), dtype)
    kept.stop_gradient = True
    return kept


def _not_zero(count: Variable) -> Variable:
    """A count, 1 where it is 0."""
    any = cast_to(count, VarType.BOOL)
    none = cast_to(op("logical_not", {"X": any}, dtype=VarType.BOOL), count.dtype)
    return op("elementwise_add", {"X": count, "Y": none})


def _by_weight(
    loss: Variable,
    label: Variable,
    weight: Variable,
    ignore_index: int,
    reduction: str,
    soft_label: bool,
    place: int,
    is_flat: bool,
) -> Variable:
    """Losses times the weights of their classes; the mean divided by the sum of these."""
    if soft_label:
        column = op("reshape2", {"X": weight}, {"shape": [-1, 1]})
        weights = op("matmul", {"X": label, "Y": column})
    else:
        kept = _kept(label, ignore_index, loss.dtype)
        ids = op("elementwise_mul", {"X": label, "Y": cast_to(kept, label.dtype)})
        flat = op("reshape2", {"X": ids}, {"shape": [-1]})
        found = op("gather", {"X": weight, "Index": flat}, {"overwrite": False})
        shape = [0 if size < 0 else size for size in label.shape[:1]] + list(label.shape[1:])
        found = op("reshape2", {"X": found}, {"shape": shape})
        weights = op("elementwise_mul", {"X": found, "Y": kept})
    loss = op("elementwise_mul", {"X": loss, "Y": weights})
    if reduction == "mean":
        total, count = (
            op("reduce_sum", {"X": one}, {"reduce_all": True}) for one in (loss, weights)
        )
        return op("elementwise_div", {"X": total, "Y": _not_zero(count)})
    loss = reduced(loss, reduction, None)
    return (
        op("squeeze2", {"X": loss}, {"axes": [place]}) if reduction == "none" and is_flat else loss
    )


def nll_loss(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """-input at the class of the label, (N, C) or (N, C, ...)."""
    require_reduction(reduction, "nll_loss")
    if rank_of(label) == 2 and rank_of(input) == 2 and label.shape[-1] == 1:
        label = op("reshape2", {"X": label}, {"shape": [-1]})
    inputs = {"X": input, "Label": label, "Weight": weight}
    attrs = {"ignore_index": ignore_index, "reduction": reduction}
    return op("nll_loss", inputs, attrs, ("Out", "Total_weight"), name=name)[0]


def binary_cross_entropy(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Cross entropy of probabilities with labels in [0, 1]."""
    require_reduction(reduction, "binary_cross_entropy")
    loss = op("bce_loss", {"X": input, "Label": label})
    if weight is not None:
        loss = op("elementwise_mul", {"X": loss, "Y": weight})
    return reduced(loss, reduction, name)


def binary_cross_entropy_with_logits(
    logit: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: str = "mean",
    pos_weight: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Cross entropy of the sigmoid of logits with labels in [0, 1]. pos_weight: of ones."""
    require_reduction(reduction, "binary_cross_entropy_with_logits")
    attrs = {"ignore_index": -100, "normalize": False}
    loss = op("sigmoid_cross_entropy_with_logits", {"X": logit, "Label": label}, attrs)
    if pos_weight is not None:  # log(1 + exp(-logit)) is the loss of a label of 1
        more = op("scale", {"X": pos_weight}, {"scale": 1.0, "bias": -1.0})
        of_one = op("softplus", {"X": op("scale", {"X": logit}, {"scale": -1.0})})
        share = op("elementwise_mul", {"X": label, "Y": more})
        extra = op("elementwise_mul", {"X": of_one, "Y": share})
        loss = op("elementwise_add", {"X": loss, "Y": extra})
    if weight is not None:
        loss = op("elementwise_mul", {"X": loss, "Y": weight})
    return reduced(loss, reduction, name)


def sigmoid_focal_loss(
    logit: Variable,
    label: Variable,
    normalizer: Variable | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
    name: str | None = None,
) -> Variable:
    """Cross entropy of the sigmoid, less for what is sure: times (1 - p)^gamma."""
    require_reduction(reduction, "sigmoid_focal_loss")
    loss = op("sigmoid_cross_entropy_with_logits", {"X": logit, "Label": label}, {})
    sure = op("sigmoid", {"X": logit})
    both = op("elementwise_mul", {"X": sure, "Y": label})
    unsure = op("elementwise_add", {"X": sure, "Y": label})
    unsure = op("elementwise_sub", {"X": unsure, "Y": op("scale", {"X": both}, {"scale": 2.0})})
    modulator = op("pow", {"X": unsure}, {"factor": float(gamma)})
    share = op("scale", {"X": label}, {"scale": 2.0 * alpha - 1.0, "bias": 1.0 - alpha})
    loss = op(
        "elementwise_mul", {"X": op("elementwise_mul", {"X": share, "Y": modulator}), "Y": loss}
    )
    if normalizer is not None:
        loss = op("elementwise_div", {"X": loss, "Y": normalizer})
    return reduced(loss, reduction, name)


def kl_div(
    input: Variable, label: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """label * (log(label) - input). reduction: `batchmean` too."""
    return op("kldiv_loss", {"X": input, "Target": label}, {"reduction": reduction}, ("Loss",))[0]


def ctc_loss(
    log_probs: Variable,
    labels: Variable,
    input_lengths: Variable,
    label_lengths: Variable,
    blank: int = 0,
    reduction: str = "mean",
    norm_by_times: bool = False,
) -> Variable:
    """The CTC loss of (time, N, classes); the mean is that of losses divided by label lengths."""
    from refluid.fluid.functions.loss.ctc import warpctc

    loss = warpctc(log_probs, labels, blank, norm_by_times, input_lengths, label_lengths)
    loss = op("squeeze2", {"X": loss}, {"axes": [1]})
    if reduction == "mean":
        lengths = cast_to(label_lengths, loss.dtype)
        return op("mean", {"X": op("elementwise_div", {"X": loss, "Y": lengths})})
    return reduced(loss, reduction, None)


def rnnt_loss(
    input: Variable,
    label: Variable,
    input_lengths: Variable,
    label_lengths: Variable,
    blank: int = 0,
    fastemit_lambda: float = 0.001,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """The loss of a recurrent transducer, of log probabilities (N, times, labels + 1, classes).

    label: (N, labels), `label_lengths` of which count, as `input_lengths` times do. blank: the
    class that emits nothing. fastemit_lambda: by so much more gradients of labels count.
    """
    require_reduction(reduction, "rnnt_loss")
    inputs = {
        "X": input,
        "Label": label,
        "XLengths": input_lengths,
        "LabelLengths": label_lengths,
    }
    attrs = {"blank": blank, "fastemit_lambda": float(fastemit_lambda)}
    loss = op("warprnnt", inputs, attrs, ("Loss",))[0]
    return reduced(loss, reduction, name)
