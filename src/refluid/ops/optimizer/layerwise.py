"""Updates whose rate depends on the lengths of a parameter and its gradient, in place."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from refluid.kernels import lists
from refluid.ops.optimizer.adam import BETA2
from refluid.ops.optimizer.lists import (
    Given,
    Tensors,
    decay_to,
    decay_to_square,
    in_one_pass,
    numbers_of,
    update,
    update_flags,
)
from refluid.ops.registry import operator
from refluid.ops.signature import Random
from refluid.ops.sparse.sparse import as_dense


def _scaled(steps: Tensors, rates: Tensors, factors: Tensors) -> None:
    """step *= rate * factor, a number for each step."""
    for step, rate, factor in zip(steps, rates, factors, strict=True):
        step.mul_(rate * factor)


def _lars_at_once(given: Given) -> None:
    rates, decay = numbers_of(given["LearningRate"]), given["lars_weight_decay"]
    told = given, "Param Grad Velocity", "mu lars_weight_decay"
    lengths, slopes = np.sqrt(in_one_pass("lars_lengths", *told, rates))
    whole = np.where((lengths > 0) & (slopes > 0), slopes + decay * lengths, 0.0)
    local = given["lars_coeff"] * lengths
    factors = np.divide(local, whole, out=np.ones_like(whole), where=whole != 0)
    in_one_pass("lars_steps", *told, [*(rates * factors)])


@update("lars_momentum", "Param Velocity", at_once=_lars_at_once)
def lars_momentum(
    Param: Tensors,
    Grad: Tensors,
    Velocity: Tensors,
    LearningRate: Tensors,
    *,
    mu: float,
    lars_coeff: float = 0.001,
    lars_weight_decay: float = 0.0005,
) -> None:
    """local = rate * coeff * |param| / (|grad| + decay * |param|);

    velocity = mu * velocity + local * (grad + decay * param); param -= velocity. Where either
    length is 0, local is the rate, so that parameters that start at 0 can move.
    """
    lengths, slopes = lists.norm(Param), lists.norm(Grad)
    factors = [
        torch.where(
            (length > 0) & (slope > 0),
            lars_coeff * length / (slope + lars_weight_decay * length),
            torch.ones_like(length),
        )
        for length, slope in zip(lengths, slopes, strict=True)
    ]
    steps = list(lists.add(Grad, Param, alpha=lars_weight_decay))
    _scaled(steps, LearningRate, factors)
    lists.mul_(Velocity, mu)
    lists.add_(Velocity, steps)
    lists.sub_(Param, Velocity)


def _lamb_at_once(given: Given) -> None:
    rates = numbers_of(given["LearningRate"])
    told = given, "Param Grad Moment1 Moment2", "beta1 beta2 epsilon weight_decay"
    lengths, sizes = np.sqrt(in_one_pass("lamb_lengths", *told, rates))
    both = (lengths > 0) & (sizes > 0)
    factors = np.divide(lengths, sizes, out=np.ones_like(sizes), where=both)
    in_one_pass("lamb_steps", *told, [*(rates * factors)])


@update("lamb", "Param Moment1 Moment2", at_once=_lamb_at_once)
def lamb(
    Param: Tensors,
    Grad: Tensors,
    LearningRate: Tensors,
    Moment1: Tensors,
    Moment2: Tensors,
    Beta1Pow: Tensors,
    Beta2Pow: Tensors,
    *,
    weight_decay: float,
    beta1: float = 0.9,
    beta2: float = BETA2,
    epsilon: float = 1e-6,
) -> None:
    """Adam's step with decay, scaled to the length of the parameter.

    ratio = m / (sqrt(v) + epsilon) + decay * param, of moments m and v without correction;
    param -= rate * |param| / |ratio| * ratio.
    """
    decay_to(Moment1, Grad, beta1)
    decay_to_square(Moment2, Grad, beta2)
    spread = list(lists.sqrt(Moment2))
    lists.add_(spread, epsilon)
    ratios = list(lists.div(Moment1, spread))
    lists.add_(ratios, Param, alpha=weight_decay)
    lengths, sizes = lists.norm(Param), lists.norm(ratios)
    factors = [
        torch.where((length > 0) & (size > 0), length / size, torch.ones_like(length))
        for length, size in zip(lengths, sizes, strict=True)
    ]
    _scaled(ratios, LearningRate, factors)
    lists.sub_(Param, ratios)


@operator("dpsgd", **update_flags("Param"))
@as_dense
def dpsgd(
    Param: Tensor,
    Grad: Tensor,
    LearningRate: Tensor,
    *,
    clip: float = 10.0,
    batch_size: float = 16.0,
    sigma: float = 1.0,
    seed: int = 0,
    random: Random,
) -> Tensor:
    """SGD with the gradient cut to length `clip` and one draw of normal noise added to it."""
    shrunk = Grad / (Grad.norm() / clip).clamp(min=1.0)
    noise = Grad.new_empty(1).normal_(0.0, sigma, generator=random(seed))
    return Param.sub_(LearningRate * (shrunk + noise / batch_size))
