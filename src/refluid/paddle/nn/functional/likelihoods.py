"""Losses that are likelihoods of numbers, and those of margins between classes."""

from __future__ import annotations

import math as numbers
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable
from refluid.paddle.nn.functional.loss import softmax_with_cross_entropy
from refluid.paddle.nn.functional.reducing import reduced, require_reduction
from refluid.paddle.nn.functional.shapes import one_hot
from refluid.paddle.tensor import logic, manipulation, math
from refluid.paddle.tensor import reduction as reductions
from refluid.paddle.tensor.making import cast_to, rank_of
from refluid.paddle.tensor.search import where


def gaussian_nll_loss(
    input: Variable,
    label: Variable,
    variance: Variable,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """(log v + (input - label)² / v) / 2 of v, the variance but at least epsilon.

    full: log(2 pi) / 2 more. ValueError where the variance fits the input in no way.
    """
    require_reduction(reduction, "gaussian_nll_loss")
    if tuple(variance.shape) != tuple(input.shape):
        if tuple(input.shape[:-1]) == tuple(variance.shape):
            variance = manipulation.unsqueeze(variance, -1)
        elif not (
            tuple(input.shape[:-1]) == tuple(variance.shape[:-1]) and variance.shape[-1] == 1
        ):
            raise ValueError("variance is of incorrect shape")
    kept = math.clip(variance, min=float(epsilon))
    apart = math.square(math.subtract(input, label))
    loss = math.scale(math.add(math.log(kept), math.divide(apart, kept)), 0.5)
    if full:
        loss = math.scale(loss, 1.0, 0.5 * numbers.log(2.0 * numbers.pi))
    return reduced(loss, reduction, name)


def poisson_nll_loss(
    input: Variable,
    label: Variable,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """exp(input) - label * input, or input - label * log(input + epsilon) where it is no logarithm.

    full: the label's part of Stirling's formula more, where the label is above 1.
    """
    require_reduction(reduction, "poisson_nll_loss")
    if epsilon <= 0:
        raise ValueError(
            f"The value of `epsilon` in poisson_nll_loss should be positive, not {epsilon}"
        )
    label = cast_to(label, input.dtype)
    if log_input:
        loss = math.subtract(math.exp(input), math.multiply(label, input))
    else:
        logs = math.log(math.scale(input, 1.0, float(epsilon)))
        loss = math.subtract(input, math.multiply(label, logs))
    if full:
        stirling = math.add(
            math.subtract(math.multiply(label, math.log(label)), label),
            math.scale(math.log(math.scale(label, 2.0 * numbers.pi)), 0.5),
        )
        ones = math.scale(label, 0.0, 1.0)
        loss = math.add(
            loss, where(logic.greater_than(label, ones), stirling, math.scale(label, 0.0))
        )
    return reduced(loss, reduction, name)


def multi_margin_loss(
    input: Variable,
    label: Variable,
    p: int = 1,
    margin: float = 1.0,
    weight: Variable | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """The mean over classes of max(0, margin - input[label] + input[class]) ** p, but of the label.

    weight: of the label's class, within the power.
    """
    require_reduction(reduction, "multi_margin_loss")
    classes = input.shape[1]
    flat = manipulation.reshape(label, [-1])
    mine = cast_to(one_hot(flat, classes), input.dtype)
    own = reductions.sum(math.multiply(input, mine), 1, keepdim=True)
    apart = math.scale(math.subtract(input, own), 1.0, float(margin))
    if weight is not None:
        weights = manipulation.reshape(weight, [1, classes])
        apart = math.multiply(apart, reductions.sum(math.multiply(mine, weights), 1, keepdim=True))
    powers = math.pow(op("relu", {"X": apart}), float(p))
    others = math.multiply(powers, math.scale(mine, -1.0, 1.0))
    return reduced(math.scale(reductions.sum(others, 1), 1.0 / classes), reduction, name)


def margin_cross_entropy(
    logits: Variable,
    label: Variable,
    margin1: float = 1.0,
    margin2: float = 0.5,
    margin3: float = 0.0,
    scale: float = 64.0,
    group: Any = None,
    return_softmax: bool = False,
    reduction: str | None = "mean",
) -> Any:
    """Cross entropy of cosines with a margin (ArcFace): the label's becomes

    cos(margin1 * angle + margin2) - margin3, and all are multiplied by `scale`. Classes are not
    parted among processes here: ValueError for a group.
    """
    if group:
        raise ValueError("margin_cross_entropy takes no group here: each process has all classes")
    flat = manipulation.reshape(label, [-1])
    mine = cast_to(one_hot(flat, logits.shape[-1]), logits.dtype)
    angle = math.acos(
        math.clip(reductions.sum(math.multiply(logits, mine), 1, keepdim=True), -1.0, 1.0)
    )
    moved = math.scale(math.cos(math.scale(angle, float(margin1), float(margin2))), 1.0, -margin3)
    changed = math.add(
        math.multiply(logits, math.scale(mine, -1.0, 1.0)), math.multiply(moved, mine)
    )
    column = manipulation.reshape(label, [-1, 1])
    loss, softmax = softmax_with_cross_entropy(
        math.scale(changed, float(scale)), column, return_softmax=True
    )
    found = loss if reduction in (None, "none") else reduced(loss, str(reduction), None)
    return (found, softmax) if return_softmax else found


def hsigmoid_loss(
    input: Variable,
    label: Variable,
    num_classes: int,
    weight: Variable,
    bias: Variable | None = None,
    path_table: Variable | None = None,
    path_code: Variable | None = None,
    is_sparse: bool = False,
    name: str | None = None,
) -> Variable:
    """The cost (N, 1) of the way to each label in a binary tree of classes.

    path_table, path_code: nodes and turns of the way to each label, for a tree of one's own.
    """
    if num_classes < 2:
        raise ValueError(f"Expected num_classes >= 2 (got {num_classes})")
    inputs = {
        "X": input,
        "W": weight,
        "Label": manipulation.reshape(label, [-1, 1]) if rank_of(label) == 1 else label,
        "PathTable": path_table,
        "PathCode": path_code,
        "Bias": bias,
    }
    attrs = {"num_classes": int(num_classes), "is_sparse": bool(is_sparse)}
    made = {"Out": VarType.FP32, "PreOut": VarType.FP32, "W_Out": VarType.FP32}
    return op("hierarchical_sigmoid", inputs, attrs, made, name=name)[0]
