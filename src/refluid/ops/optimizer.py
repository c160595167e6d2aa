"""Parameter updates, in place; each for one parameter and for many at once."""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor

from refluid.core.selected_rows import SelectedRows
from refluid.ops.fused import adam_step, descend, groups_by_rate, scale_all
from refluid.ops.registry import many, operator
from refluid.ops.signature import Long
from refluid.ops.sparse import dense, update_rows

Tensors = list[Tensor]


@operator("sgd", outputs="ParamOut", uses=None, lod="", mutates={"ParamOut": "Param"}, effects=True)
def sgd(Param: Tensor, LearningRate: Tensor, Grad: Tensor | SelectedRows) -> Tensor:
    """Param - LearningRate * Grad; of a sparse Grad only those rows are touched."""
    if isinstance(Grad, SelectedRows):
        return Param.index_put_((Grad.index,), Grad.value * -LearningRate, accumulate=True)
    return Param.sub_(Grad * LearningRate)


@many("sgd")
def sgd_many(Param: Tensors, LearningRate: Tensors, Grad: Tensors) -> None:
    """`sgd` of all parameters of one learning rate in one pass over their memory."""
    for rate, group in groups_by_rate(LearningRate):
        descend([Param[i] for i in group], [Grad[i] for i in group], [], rate, 0.0, False)


@operator(
    "momentum",
    outputs="ParamOut VelocityOut",
    uses=None,
    lod="",
    mutates={"ParamOut": "Param", "VelocityOut": "Velocity"},
    effects=True,
)
def momentum(
    Param: Tensor,
    Grad: Tensor | SelectedRows,
    Velocity: Tensor,
    LearningRate: Tensor,
    *,
    mu: float,
    use_nesterov: bool = False,
) -> tuple[Tensor, Tensor]:
    """velocity = mu * velocity + grad; param -= rate * velocity.

    With Nesterov: param -= rate * (grad + mu * velocity). Rows that a sparse Grad lacks move on
    with their velocity.
    """
    momentum_many(
        [Param], [dense(Grad)], [Velocity], [LearningRate], mu=mu, use_nesterov=use_nesterov
    )
    return Param, Velocity


@many("momentum")
def momentum_many(
    Param: Tensors,
    Grad: Tensors,
    Velocity: Tensors,
    LearningRate: Tensors,
    *,
    mu: float,
    use_nesterov: bool = False,
) -> None:
    """`momentum` of all parameters of one learning rate in one pass over their memory."""
    for rate, group in groups_by_rate(LearningRate):
        params, grads = [Param[i] for i in group], [Grad[i] for i in group]
        descend(params, grads, [Velocity[i] for i in group], rate, mu, use_nesterov)


@operator(
    "adam",
    outputs="ParamOut Moment1Out Moment2Out Beta1PowOut Beta2PowOut",
    uses=None,
    lod="",
    mutates={
        "ParamOut": "Param",
        "Moment1Out": "Moment1",
        "Moment2Out": "Moment2",
        "Beta1PowOut": "Beta1Pow",
        "Beta2PowOut": "Beta2Pow",
    },
    effects=True,
)
def adam(
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
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    lazy_mode: bool = False,
    min_row_size_to_use_multithread: Long = 1000,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """moment1 = beta1 * moment1 + (1 - beta1) * grad; moment2 likewise of grad²;

    param -= rate * sqrt(1 - beta2_pow) / (1 - beta1_pow) * moment1 / (sqrt(moment2) + epsilon);
    then beta1_pow *= beta1 and beta2_pow *= beta2. Of a sparse Grad lazy_mode takes its rows
    only; else rows that it lacks move on with their moments.
    """
    powers = [Beta1Pow], [Beta2Pow]
    tensors = [[] if one is None else [one] for one in (Beta1Tensor, Beta2Tensor)]
    numbers = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}

    def step(grad: Tensor, param: Tensor, moment1: Tensor, moment2: Tensor) -> None:
        adam_many(
            [param], [grad], [LearningRate], [moment1], [moment2], *powers, *tensors, **numbers
        )

    if lazy_mode and isinstance(Grad, SelectedRows):
        update_rows(step, Grad, Param, Moment1, Moment2)
    else:
        step(dense(Grad), Param, Moment1, Moment2)
    return Param, Moment1, Moment2, Beta1Pow, Beta2Pow


@many("adam")
def adam_many(
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
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    lazy_mode: bool = False,
    min_row_size_to_use_multithread: Long = 1000,
) -> None:
    """`adam` of all parameters of one corrected learning rate in one pass over their memory."""
    betas = (
        Beta1Tensor[0].item() if Beta1Tensor else beta1,
        Beta2Tensor[0].item() if Beta2Tensor else beta2,
    )
    if Param[0].device.type == "cpu":
        groups: defaultdict[float, list[int]] = defaultdict(list)
        for rate, positions in groups_by_rate(LearningRate):
            for i in positions:
                first, second = Beta1Pow[i].item(), Beta2Pow[i].item()
                groups[rate * (1.0 - second) ** 0.5 / (1.0 - first)].append(i)
        for corrected, group in groups.items():
            params, grads = [Param[i] for i in group], [Grad[i] for i in group]
            moments = [Moment1[i] for i in group], [Moment2[i] for i in group]
            adam_step(params, grads, *moments, corrected, betas, epsilon)
    else:
        rates = torch.cat(LearningRate) * (1.0 - torch.cat(Beta2Pow)).sqrt_()
        rates /= 1.0 - torch.cat(Beta1Pow)
        for i, rate in enumerate(rates.unbind()):
            adam_step([Param[i]], [Grad[i]], [Moment1[i]], [Moment2[i]], rate, betas, epsilon)
    scale_all(Beta1Pow, betas[0])
    scale_all(Beta2Pow, betas[1])
