"""Updates that shrink small parameters to zero, in place."""

from __future__ import annotations

import torch

from refluid.kernels import lists
from refluid.ops.optimizer.lists import Tensors, take_steps, update

_RENAMED = {"SquaredAccumulator": "SquaredAccumOut", "LinearAccumulator": "LinearAccumOut"}


@update("ftrl", "Param SquaredAccumulator LinearAccumulator", renamed=_RENAMED, rows=True)
def ftrl(
    Param: Tensors,
    SquaredAccumulator: Tensors,
    LinearAccumulator: Tensors,
    Grad: Tensors,
    LearningRate: Tensors,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    lr_power: float = -0.5,
) -> None:
    """Follow the regularised leader.

    s' = s + grad²; linear += grad - (s' ** -power - s ** -power) / rate * param; param =
    (l1 * sign(linear) - linear) / (s' ** -power / rate + 2 * l2) where |linear| > l1, else 0.
    """
    old = list(lists.pow(SquaredAccumulator, -lr_power))
    lists.addcmul_(SquaredAccumulator, Grad, Grad)
    new = list(lists.pow(SquaredAccumulator, -lr_power))
    for scaled in (old, new):
        for value, rate in zip(scaled, LearningRate, strict=True):
            value.div_(rate)
    pull = lists.sub(new, old)
    lists.addcmul_(LinearAccumulator, pull, Param, value=-1.0)
    lists.add_(LinearAccumulator, Grad)
    lists.add_(new, 2.0 * l2)
    for param, linear, spread in zip(Param, LinearAccumulator, new, strict=True):
        moved = (linear.sign() * l1 - linear) / spread
        param.copy_(torch.where(linear.abs() > l1, moved, torch.zeros_like(moved)))


def _shrink(params: Tensors, rates: Tensors, l1: float, l2: float) -> None:
    """sign(param) / (1 + rate * l2) * max(|param| - rate * l1, 0)."""
    for param, rate in zip(params, rates, strict=True):
        size = (param.abs() - rate * l1).clamp_(min=0.0)
        param.copy_(param.sign() * size / (1.0 + rate * l2))


@update("proximal_gd", "Param")
def proximal_gd(
    Param: Tensors, Grad: Tensors, LearningRate: Tensors, *, l1: float = 0.0, l2: float = 0.0
) -> None:
    """A step of gradient descent, then sign(p) / (1 + rate * l2) * max(|p| - rate * l1, 0)."""
    take_steps(Param, Grad, LearningRate)
    _shrink(Param, LearningRate, l1, l2)


@update("proximal_adagrad", "Param Moment")
def proximal_adagrad(
    Param: Tensors,
    Moment: Tensors,
    Grad: Tensors,
    LearningRate: Tensors,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
) -> None:
    """moment += grad²; param -= rate * grad / sqrt(moment); then shrunk as in `proximal_gd`."""
    lists.addcmul_(Moment, Grad, Grad)
    steps = list(lists.div(Grad, lists.sqrt(Moment)))
    take_steps(Param, steps, LearningRate)
    _shrink(Param, LearningRate, l1, l2)
