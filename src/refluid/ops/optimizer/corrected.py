"""Updates as Paddle 2 has them where they differ from Fluid's, in place."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from refluid.core.selected_rows import SelectedRows
from refluid.kernels import lists
from refluid.kernels.rows.updates import adam_rows, takes
from refluid.ops.drafts import steady
from refluid.ops.optimizer.adam import (
    BETA2,
    KEPT,
    corrected,
    epsilon_of,
    multiply,
    steady_step,
    step_all,
)
from refluid.ops.optimizer.lists import Tensors, decay_to, decay_to_square, take_steps, update
from refluid.ops.registry import many, operator
from refluid.ops.signature import Long
from refluid.ops.sparse.sparse import update_rows


@operator(
    "adam_v2",
    outputs=" ".join(f"{slot}Out" for slot in KEPT),
    uses=None,
    lod="",
    mutates={f"{slot}Out": slot for slot in KEPT},
)
def adam_v2(
    Param: Tensor,
    Grad: Tensor | SelectedRows,
    LearningRate: Tensor,
    Moment1: Tensor,
    Moment2: Tensor,
    Beta1Pow: Tensor,
    Beta2Pow: Tensor,
    Beta1Tensor: Tensor | None = None,
    Beta2Tensor: Tensor | None = None,
    *,
    beta1: float = 0.9,
    beta2: float = BETA2,
    epsilon: float = 1e-8,
    lazy_mode: bool = False,
    min_row_size_to_use_multithread: Long = 1000,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As `adam`, with epsilon added to the root of the corrected moment:

    param -= rate * m / (sqrt(v) + epsilon), m = moment1 / (1 - beta1_pow), v likewise.
    """
    betas = (
        beta1 if Beta1Tensor is None else Beta1Tensor.item(),
        beta2 if Beta2Tensor is None else Beta2Tensor.item(),
    )
    powers = [Beta1Pow], [Beta2Pow]

    def step(grad: Tensor, param: Tensor, *moments: Tensor) -> None:
        first, second = moments
        step_all(
            *([param], [grad], [LearningRate], [first], [second]), *powers, betas, epsilon, True
        )

    kept = Param, Moment1, Moment2
    if isinstance(Grad, Tensor):
        step(Grad, *kept)
    elif lazy_mode and takes(Grad.index, Grad.value, *kept):
        one, two = Beta1Pow.item(), Beta2Pow.item()
        rate, small = corrected(LearningRate.item(), one, two), epsilon_of(epsilon, two)
        adam_rows(*kept, Grad.index, Grad.value, rate, betas, small)
    elif lazy_mode:
        update_rows(step, Grad, *kept)
    else:
        step(Grad.to_dense(), *kept)
    multiply(*powers, betas)
    return *kept, Beta1Pow, Beta2Pow


@many("adam_v2")
def adam_v2_many(
    Param: Tensors,
    Grad: Tensors,
    LearningRate: Tensors,
    Moment1: Tensors,
    Moment2: Tensors,
    Beta1Pow: Tensors,
    Beta2Pow: Tensors,
    Beta1Tensor: Tensors,
    Beta2Tensor: Tensors,
    *,
    beta1: float = 0.9,
    beta2: float = BETA2,
    epsilon: float = 1e-8,
    lazy_mode: bool = False,
    min_row_size_to_use_multithread: Long = 1000,
) -> None:
    """`adam_v2` of all parameters in one pass over their memory."""
    betas = (
        Beta1Tensor[0].item() if Beta1Tensor else beta1,
        Beta2Tensor[0].item() if Beta2Tensor else beta2,
    )
    powers = Beta1Pow, Beta2Pow
    step_all(Param, Grad, LearningRate, Moment1, Moment2, *powers, betas, epsilon, True)
    multiply(*powers, betas)


steady("adam_v2")(partial(steady_step, corrects=True))


@update("lamb_v2", "Param Moment1 Moment2 Beta1Pow Beta2Pow")
def lamb_v2(
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
    always_adapt: bool = False,
) -> None:
    """As `lamb`, of corrected moments: m / (sqrt(v) + epsilon) + decay * param is the step.

    It is scaled to the length of the parameter where there is decay, or `always_adapt` is set.
    """
    decay_to(Moment1, Grad, beta1)
    decay_to_square(Moment2, Grad, beta2)
    spread = [
        one.div(1.0 - float(power)).sqrt_() for one, power in zip(Moment2, Beta2Pow, strict=True)
    ]
    lists.add_(spread, epsilon)
    steps = list(lists.div(Moment1, spread))
    for step, power in zip(steps, Beta1Pow, strict=True):
        step.div_(1.0 - float(power))
    lists.add_(steps, Param, alpha=weight_decay)
    if weight_decay or always_adapt:
        for step, length, size in zip(steps, lists.norm(Param), lists.norm(steps), strict=True):
            moves = (length > 0) & (size > 0)
            step.mul_(torch.where(moves, length / size, torch.ones_like(length)))
    take_steps(Param, steps, LearningRate)
    multiply(Beta1Pow, Beta2Pow, (beta1, beta2))


@update("adadelta_v2", "Param AvgSquaredGrad AvgSquaredUpdate")
def adadelta_v2(
    Param: Tensors,
    Grad: Tensors,
    AvgSquaredGrad: Tensors,
    AvgSquaredUpdate: Tensors,
    LearningRate: Tensors,
    *,
    rho: float = 0.95,
    epsilon: float = 1e-6,
) -> None:
    """step = grad * sqrt((squared updates + epsilon) / (squared grads + epsilon)), both of them

    means that decay by rho, that of updates without this step; param -= rate * step.
    """
    decay_to_square(AvgSquaredGrad, Grad, rho)
    steps = list(lists.add(AvgSquaredUpdate, epsilon))
    lists.div_(steps, list(lists.add(AvgSquaredGrad, epsilon)))
    lists.sqrt_(steps)
    lists.mul_(steps, Grad)
    decay_to_square(AvgSquaredUpdate, steps, rho)
    take_steps(Param, steps, LearningRate)
