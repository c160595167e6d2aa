"""Parameter updates, in place; each for one parameter and for many at once."""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor

from refluid.ops.registry import many, operator
from refluid.ops.signature import Long

Tensors = list[Tensor]
# torch's fused Adam divides by 1 - beta ** step; after this many steps that is exactly 1, so that
# the bias corrections can be put into the learning rate, where Fluid has them.
_LATE = 1e9


@operator("sgd", outputs="ParamOut", uses=None, lod="", mutates={"ParamOut": "Param"}, effects=True)
def sgd(Param: Tensor, LearningRate: Tensor, Grad: Tensor) -> Tensor:
    """Param - LearningRate * Grad."""
    return Param.sub_(Grad * LearningRate)


@many("sgd")
def sgd_many(Param: Tensors, LearningRate: Tensors, Grad: Tensors) -> None:
    """`sgd` of all parameters of one learning rate in one call."""
    for rate, group in _by_rate(LearningRate).items():
        params, grads = [Param[i] for i in group], [Grad[i] for i in group]
        torch._foreach_add_(params, grads, alpha=-rate)


def _like(grad: Tensor, param: Tensor) -> Tensor:
    """The gradient in the memory layout of its parameter, which the fused kernels rely on."""
    if grad.stride() == param.stride():
        return grad
    return torch.empty_like(param).copy_(grad)


def _by_rate(rates: Tensors) -> dict[float, list[int]]:
    """Positions of the parameters that share each learning rate."""
    known: dict[int, float] = {}
    groups: defaultdict[float, list[int]] = defaultdict(list)
    for position, rate in enumerate(rates):
        key = id(rate)
        if key not in known:
            known[key] = rate.item()
        groups[known[key]].append(position)
    return groups


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
    Grad: Tensor,
    Velocity: Tensor,
    LearningRate: Tensor,
    *,
    mu: float,
    use_nesterov: bool = False,
) -> tuple[Tensor, Tensor]:
    """velocity = mu * velocity + grad; param -= rate * velocity.

    With Nesterov: param -= rate * (grad + mu * velocity).
    """
    momentum_many([Param], [Grad], [Velocity], [LearningRate], mu=mu, use_nesterov=use_nesterov)
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
    for rate, group in _by_rate(LearningRate).items():
        torch._fused_sgd_(
            [Param[i] for i in group],
            [_like(Grad[i], Param[i]) for i in group],
            [Velocity[i] for i in group],
            weight_decay=0.0,
            momentum=mu,
            lr=rate,
            dampening=0.0,
            nesterov=use_nesterov,
            maximize=False,
            is_first_step=False,
        )


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
    Grad: Tensor,
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
    then beta1_pow *= beta1 and beta2_pow *= beta2.
    """
    adam_many(
        [Param],
        [Grad],
        [LearningRate],
        [Moment1],
        [Moment2],
        [Beta1Pow],
        [Beta2Pow],
        [] if Beta1Tensor is None else [Beta1Tensor],
        [] if Beta2Tensor is None else [Beta2Tensor],
        beta1=beta1,
        beta2=beta2,
        epsilon=epsilon,
        lazy_mode=lazy_mode,
    )
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
    beta1 = Beta1Tensor[0].item() if Beta1Tensor else beta1
    beta2 = Beta2Tensor[0].item() if Beta2Tensor else beta2
    groups: defaultdict[float, list[int]] = defaultdict(list)
    for rate, positions in _by_rate(LearningRate).items():
        for i in positions:
            first, second = Beta1Pow[i].item(), Beta2Pow[i].item()
            groups[rate * (1.0 - second) ** 0.5 / (1.0 - first)].append(i)
    for corrected, group in groups.items():
        params = [Param[i] for i in group]
        late = torch.full((), _LATE, device=params[0].device)
        torch._fused_adam_(
            params,
            [_like(Grad[i], Param[i]) for i in group],
            [Moment1[i] for i in group],
            [Moment2[i] for i in group],
            [],
            [late] * len(group),
            lr=corrected,
            beta1=beta1,
            beta2=beta2,
            weight_decay=0.0,
            eps=epsilon,
            amsgrad=False,
            maximize=False,
        )
    torch._foreach_mul_(Beta1Pow, beta1)
    torch._foreach_mul_(Beta2Pow, beta2)
