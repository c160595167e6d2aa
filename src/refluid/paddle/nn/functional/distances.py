"""Losses of numbers and of vectors."""

from __future__ import annotations

from collections.abc import Callable

from refluid.build import op
from refluid.fluid.functions.loss import losses as fluid
from refluid.fluid.functions.loss import metric_losses
from refluid.ir.variable import Variable
from refluid.paddle.nn.functional.reducing import reduced, require_reduction
from refluid.paddle.tensor import logic, math
from refluid.paddle.tensor import reduction as reductions
from refluid.paddle.tensor.linalg import norm
from refluid.paddle.tensor.making import cast_to, constant
from refluid.paddle.tensor.search import where

# What lengths are kept above, as Paddle 2 does.
_SMALL = 1e-12


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label) squared."""
    return fluid.square_error_cost(input, label)


def mse_loss(
    input: Variable, label: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """(input - label) squared."""
    require_reduction(reduction, "mse_loss")
    return reduced(fluid.square_error_cost(input, label), reduction, name)


def l1_loss(
    input: Variable, label: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """|input - label|."""
    require_reduction(reduction, "l1_loss")
    return reduced(math.abs(math.subtract(input, label)), reduction, name)


def smooth_l1_loss(
    input: Variable,
    label: Variable,
    reduction: str = "mean",
    delta: float = 1.0,
    name: str | None = None,
) -> Variable:
    """The Huber loss: half the square of the difference up to delta, then linear."""
    require_reduction(reduction, "smooth_l1_loss")
    return reduced(fluid.huber_loss(input, label, float(delta)), reduction, name)


def log_loss(
    input: Variable, label: Variable, epsilon: float = 0.0001, name: str | None = None
) -> Variable:
    """Cross entropy of probabilities (N, 1) with labels."""
    return fluid.log_loss(input, label, epsilon)


def dice_loss(
    input: Variable, label: Variable, epsilon: float = 0.00001, name: str | None = None
) -> Variable:
    """1 - 2 * |both| / (|one| + |other|), the mean over samples."""
    return metric_losses.dice_loss(input, label, epsilon)


def npair_loss(
    anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = 0.002
) -> Variable:
    """The loss of pairs of embeddings of one class against all others."""
    return metric_losses.npair_loss(anchor, positive, labels, l2_reg)


def margin_ranking_loss(
    input: Variable,
    other: Variable,
    label: Variable,
    margin: float = 0.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """max(0, margin - label * (input - other))."""
    require_reduction(reduction, "margin_ranking_loss")
    apart = math.multiply(math.subtract(other, input), label)
    return reduced(op("relu", {"X": math.scale(apart, 1.0, margin)}), reduction, name)


def hinge_embedding_loss(
    input: Variable,
    label: Variable,
    margin: float = 1.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """input where the label is 1, max(0, margin - input) where it is -1."""
    require_reduction(reduction, "hinge_embedding_loss")
    zero = math.scale(input, 0.0)
    alike = where(logic.equal(label, constant(1, label.dtype)), input, zero)
    far = op("relu", {"X": math.scale(input, -1.0, margin)})
    other = where(logic.equal(label, constant(-1, label.dtype)), far, zero)
    return reduced(math.add(alike, other), reduction, name)


def cosine_similarity(x1: Variable, x2: Variable, axis: int = 1, eps: float = 1e-8) -> Variable:
    """The cosine of the angle between vectors along `axis`."""
    both = reductions.sum(math.multiply(x1, x2), axis)
    lengths = math.multiply(
        reductions.sum(math.multiply(x1, x1), axis), reductions.sum(math.multiply(x2, x2), axis)
    )
    return math.divide(both, math.sqrt(math.clip(lengths, min=eps * eps)))


def cosine_embedding_loss(
    input1: Variable,
    input2: Variable,
    label: Variable,
    margin: float = 0,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """1 - cos where the label is 1, max(0, cos - margin) where it is -1, elsewhere 0."""
    require_reduction(reduction, "cosine_embedding_loss")
    cosine = cosine_similarity(input1, input2, -1, _SMALL)
    alike = math.scale(cosine, -1.0, 1.0)
    other = op("relu", {"X": math.scale(cosine, 1.0, -float(margin))})
    is_one, is_other = (logic.equal(label, constant(one, label.dtype)) for one in (1, -1))
    rest = where(is_other, other, math.scale(cosine, 0.0))
    return reduced(where(is_one, alike, rest), reduction, name)


def pairwise_distance(
    x: Variable,
    y: Variable,
    p: float = 2.0,
    epsilon: float = 1e-6,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """The p-norm of x - y + epsilon along the last dimension."""
    apart = math.scale(math.subtract(x, y), 1.0, epsilon) if epsilon else math.subtract(x, y)
    return norm(apart, float(p), -1, keepdim, name)


def triplet_margin_with_distance_loss(
    input: Variable,
    positive: Variable,
    negative: Variable,
    distance_function: Callable[[Variable, Variable], Variable] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """max(0, distance to the positive - distance to the negative + margin)."""
    require_reduction(reduction, "triplet_margin_with_distance_loss")
    far = distance_function or pairwise_distance
    to_negative = far(input, negative)
    if swap:
        to_negative = math.minimum(to_negative, far(positive, negative))
    apart = math.subtract(far(input, positive), to_negative)
    return reduced(op("relu", {"X": math.scale(apart, 1.0, margin)}), reduction, name)


def triplet_margin_loss(
    input: Variable,
    positive: Variable,
    negative: Variable,
    margin: float = 1.0,
    p: float = 2,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """The same with the p-norm as distance."""

    def far(x: Variable, y: Variable) -> Variable:
        return pairwise_distance(x, y, p, epsilon)

    return triplet_margin_with_distance_loss(
        input, positive, negative, far, margin, swap, reduction, name
    )


def soft_margin_loss(
    input: Variable, label: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """log(1 + exp(-label * input))."""
    require_reduction(reduction, "soft_margin_loss")
    product = math.multiply(math.neg(cast_to(label, input.dtype)), input)
    return reduced(math.log(math.scale(math.exp(product), 1.0, 1.0)), reduction, name)


def multi_label_soft_margin_loss(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """The mean over classes of the cross entropies of their sigmoids."""
    require_reduction(reduction, "multi_label_soft_margin_loss")
    likely = math.multiply(label, op("logsigmoid", {"X": input}))
    unlikely = math.multiply(math.scale(label, -1.0, 1.0), op("logsigmoid", {"X": math.neg(input)}))
    loss = math.neg(math.add(likely, unlikely))
    loss = loss if weight is None else math.multiply(loss, weight)
    return reduced(reductions.mean(loss, -1), reduction, name)
