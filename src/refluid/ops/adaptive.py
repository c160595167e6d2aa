"""Updates with a rate of its own for each element or layer, in place."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from refluid.ops.registry import operator
from refluid.ops.signature import Random


def _update(*slots: str, renamed: dict[str, str] | None = None) -> dict[str, Any]:
    """Flags of an operator that overwrites these inputs; outputs are named `SlotOut`."""
    names = {(renamed or {}).get(slot, f"{slot}Out"): slot for slot in slots}
    return {
        "outputs": " ".join(names),
        "uses": None,
        "lod": "",
        "mutates": names,
        "effects": True,
    }


@operator("adagrad", **_update("Param", "Moment"))
def adagrad(
    Param: Tensor, Grad: Tensor, Moment: Tensor, LearningRate: Tensor, *, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """moment += grad²; param -= rate * grad / (sqrt(moment) + epsilon)."""
    Moment.addcmul_(Grad, Grad)
    Param.sub_(LearningRate * Grad / Moment.sqrt().add_(epsilon))
    return Param, Moment


@operator("decayed_adagrad", **_update("Param", "Moment"))
def decayed_adagrad(
    Param: Tensor,
    Grad: Tensor,
    Moment: Tensor,
    LearningRate: Tensor,
    *,
    decay: float = 0.95,
    epsilon: float = 1e-6,
) -> tuple[Tensor, Tensor]:
    """moment = decay * moment + (1 - decay) * grad²; then as `adagrad`."""
    Moment.mul_(decay).addcmul_(Grad, Grad, value=1.0 - decay)
    Param.sub_(LearningRate * Grad / Moment.sqrt().add_(epsilon))
    return Param, Moment


@operator("adadelta", **_update("Param", "AvgSquaredGrad", "AvgSquaredUpdate"))
def adadelta(
    Param: Tensor,
    Grad: Tensor,
    AvgSquaredGrad: Tensor,
    AvgSquaredUpdate: Tensor,
    *,
    rho: float = 0.95,
    epsilon: float = 1e-6,
) -> tuple[Tensor, Tensor, Tensor]:
    """u is grad * sqrt((squared updates + epsilon) / (squared grads + epsilon)), both of them means

    that decay by rho, and the squared updates' taken once without u and, for the step, with it.
    """
    AvgSquaredGrad.mul_(rho).addcmul_(Grad, Grad, value=1.0 - rho)
    spread = AvgSquaredGrad + epsilon
    update = (AvgSquaredUpdate + epsilon).div_(spread).sqrt_().mul_(Grad)
    AvgSquaredUpdate.mul_(rho).addcmul_(update, update, value=1.0 - rho)
    step = (AvgSquaredUpdate + epsilon).div_(spread).sqrt_().mul_(Grad)
    return Param.sub_(step), AvgSquaredGrad, AvgSquaredUpdate


@operator("adamax", **_update("Param", "Moment", "InfNorm"))
def adamax(
    Param: Tensor,
    Grad: Tensor,
    LearningRate: Tensor,
    Moment: Tensor,
    InfNorm: Tensor,
    Beta1Pow: Tensor,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> tuple[Tensor, Tensor, Tensor]:
    """moment = beta1 * moment + (1 - beta1) * grad; norm = max(beta2 * norm + epsilon, |grad|);

    param -= rate / (1 - beta1_pow) * moment / norm.
    """
    Moment.mul_(beta1).add_(Grad, alpha=1.0 - beta1)
    InfNorm.mul_(beta2).add_(epsilon)
    torch.maximum(InfNorm, Grad.abs(), out=InfNorm)
    rate = LearningRate / (1.0 - Beta1Pow)
    return Param.sub_(rate * (Moment / InfNorm)), Moment, InfNorm


@operator(
    "rmsprop",
    **_update("Param", "Moment", "MeanSquare", "MeanGrad"),
)
def rmsprop(
    Param: Tensor,
    MeanSquare: Tensor,
    MeanGrad: Tensor | None,
    LearningRate: Tensor,
    Grad: Tensor,
    Moment: Tensor,
    *,
    epsilon: float = 1e-10,
    decay: float = 0.9,
    momentum: float = 0.0,
    centered: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """square = decay * square + (1 - decay) * grad²;

    moment = momentum * moment + rate * grad / sqrt(square + epsilon); param -= moment.
    centered: the square of the mean gradient, kept likewise, is taken off the square.
    """
    MeanSquare.mul_(decay).addcmul_(Grad, Grad, value=1.0 - decay)
    spread = MeanSquare + epsilon
    if centered and MeanGrad is not None:
        MeanGrad.mul_(decay).add_(Grad, alpha=1.0 - decay)
        spread.addcmul_(MeanGrad, MeanGrad, value=-1.0)
    Moment.mul_(momentum).add_(LearningRate * Grad / spread.sqrt_())
    return Param.sub_(Moment), Moment, MeanSquare, MeanGrad


@operator("lars_momentum", **_update("Param", "Velocity"))
def lars_momentum(
    Param: Tensor,
    Grad: Tensor,
    Velocity: Tensor,
    LearningRate: Tensor,
    *,
    mu: float,
    lars_coeff: float = 0.001,
    lars_weight_decay: float = 0.0005,
) -> tuple[Tensor, Tensor]:
    """local = rate * coeff * |param| / (|grad| + decay * |param|);

    velocity = mu * velocity + local * (grad + decay * param); param -= velocity.
    """
    length = Param.norm()
    scale = lars_coeff * length / (Grad.norm() + lars_weight_decay * length)
    step = Grad.add(Param, alpha=lars_weight_decay) * (LearningRate * scale)
    Velocity.mul_(mu).add_(step)
    return Param.sub_(Velocity), Velocity


@operator("lamb", **_update("Param", "Moment1", "Moment2"))
def lamb(
    Param: Tensor,
    Grad: Tensor,
    LearningRate: Tensor,
    Moment1: Tensor,
    Moment2: Tensor,
    Beta1Pow: Tensor,
    Beta2Pow: Tensor,
    *,
    weight_decay: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-6,
) -> tuple[Tensor, Tensor, Tensor]:
    """Adam's step with decay, scaled to the length of the parameter.

    ratio = m / (sqrt(v) + epsilon) + decay * param, of moments m and v without correction;
    param -= rate * |param| / |ratio| * ratio.
    """
    Moment1.mul_(beta1).add_(Grad, alpha=1.0 - beta1)
    Moment2.mul_(beta2).addcmul_(Grad, Grad, value=1.0 - beta2)
    ratio = Moment1.div(Moment2.sqrt().add_(epsilon)).add_(Param, alpha=weight_decay)
    length, step = Param.norm(), ratio.norm()
    trust = torch.where((length > 0) & (step > 0), length / step, torch.ones_like(length))
    return Param.sub_(ratio.mul_(LearningRate * trust)), Moment1, Moment2


@operator(
    "ftrl",
    **_update(
        "Param",
        "SquaredAccumulator",
        "LinearAccumulator",
        renamed={"SquaredAccumulator": "SquaredAccumOut", "LinearAccumulator": "LinearAccumOut"},
    ),
)
def ftrl(
    Param: Tensor,
    SquaredAccumulator: Tensor,
    LinearAccumulator: Tensor,
    Grad: Tensor,
    LearningRate: Tensor,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    lr_power: float = -0.5,
) -> tuple[Tensor, Tensor, Tensor]:
    """Follow the regularised leader.

    s' = s + grad²; linear += grad - (s' ** -power - s ** -power) / rate * param; param =
    (l1 * sign(linear) - linear) / (s' ** -power / rate + 2 * l2) where |linear| > l1, else 0.
    """
    old = SquaredAccumulator.pow(-lr_power)
    SquaredAccumulator.addcmul_(Grad, Grad)
    new = SquaredAccumulator.pow(-lr_power)
    LinearAccumulator.add_(Grad - (new - old) / LearningRate * Param)
    moved = LinearAccumulator.sign().mul_(l1).sub_(LinearAccumulator)
    Param.copy_(moved / (new / LearningRate + 2.0 * l2) * (LinearAccumulator.abs() > l1))
    return Param, SquaredAccumulator, LinearAccumulator


@operator("dpsgd", **_update("Param"))
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
