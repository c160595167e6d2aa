"""Updates with a rate of its own for each element, in place, for many parameters at once."""

from __future__ import annotations

from refluid.kernels import lists
from refluid.ops.optimizer.fused import adagrad_step, groups_by_rate
from refluid.ops.optimizer.lists import (
    Given,
    Tensors,
    add_quotients,
    by_loop,
    decay_to,
    decay_to_square,
    in_one_pass,
    numbers_of,
    penalized,
    update,
)


def _take_scaled_steps(params: Tensors, grads: Tensors, rates: Tensors, spread: Tensors) -> None:
    """param -= rate * grad / spread."""
    add_quotients(params, grads, spread, rates, sign=-1.0)


@update("adagrad", "Param Moment", rows=True, decays=True)
def adagrad(
    Param: Tensors,
    Grad: Tensors,
    Moment: Tensors,
    LearningRate: Tensors,
    *,
    epsilon: float = 1e-6,
    l2_decay: float = 0.0,
) -> None:
    """moment += grad²; param -= rate * grad / (sqrt(moment) + epsilon)."""
    if Param[0].device.type == "cpu":
        for rate, group in groups_by_rate(LearningRate):
            params, grads = [Param[i] for i in group], [Grad[i] for i in group]
            adagrad_step(params, grads, [Moment[i] for i in group], rate, epsilon, l2_decay)
        return
    Grad = penalized(Grad, Param, l2_decay)
    lists.addcmul_(Moment, Grad, Grad)
    spread = list(lists.sqrt(Moment))
    lists.add_(spread, epsilon)
    _take_scaled_steps(Param, Grad, LearningRate, spread)


@update(
    "decayed_adagrad",
    "Param Moment",
    at_once=by_loop("decayed_adagrad", "Param Grad Moment", "decay epsilon l2_decay"),
    decays=True,
)
def decayed_adagrad(
    Param: Tensors,
    Grad: Tensors,
    Moment: Tensors,
    LearningRate: Tensors,
    *,
    decay: float = 0.95,
    epsilon: float = 1e-6,
    l2_decay: float = 0.0,
) -> None:
    """moment = decay * moment + (1 - decay) * grad²; then as `adagrad`."""
    Grad = penalized(Grad, Param, l2_decay)
    decay_to_square(Moment, Grad, decay)
    spread = list(lists.sqrt(Moment))
    lists.add_(spread, epsilon)
    _take_scaled_steps(Param, Grad, LearningRate, spread)


@update(
    "adadelta",
    "Param AvgSquaredGrad AvgSquaredUpdate",
    at_once=by_loop(
        "adadelta", "Param Grad AvgSquaredGrad AvgSquaredUpdate", "rho epsilon l2_decay"
    ),
    decays=True,
)
def adadelta(
    Param: Tensors,
    Grad: Tensors,
    AvgSquaredGrad: Tensors,
    AvgSquaredUpdate: Tensors,
    *,
    rho: float = 0.95,
    epsilon: float = 1e-6,
    l2_decay: float = 0.0,
) -> None:
    """u is grad * sqrt((squared updates + epsilon) / (squared grads + epsilon)), both of them means

    that decay by rho, and the squared updates' taken once without u and, for the step, with it.
    """
    Grad = penalized(Grad, Param, l2_decay)
    decay_to_square(AvgSquaredGrad, Grad, rho)
    spread = list(lists.add(AvgSquaredGrad, epsilon))
    decay_to_square(AvgSquaredUpdate, _stretched(Grad, AvgSquaredUpdate, spread, epsilon), rho)
    lists.sub_(Param, _stretched(Grad, AvgSquaredUpdate, spread, epsilon))


def _stretched(grads: Tensors, updates: Tensors, spread: Tensors, epsilon: float) -> Tensors:
    """grad * sqrt((updates + epsilon) / spread)."""
    factors = list(lists.add(updates, epsilon))
    lists.div_(factors, spread)
    lists.sqrt_(factors)
    lists.mul_(factors, grads)
    return factors


def _adamax_at_once(given: Given) -> None:
    pairs = zip(*map(numbers_of, (given["LearningRate"], given["Beta1Pow"])), strict=True)
    rates = [rate / (1.0 - power) for rate, power in pairs]
    in_one_pass("adamax", given, "Param Grad Moment InfNorm", "beta1 beta2 epsilon l2_decay", rates)


@update("adamax", "Param Moment InfNorm", at_once=_adamax_at_once, decays=True)
def adamax(
    Param: Tensors,
    Grad: Tensors,
    LearningRate: Tensors,
    Moment: Tensors,
    InfNorm: Tensors,
    Beta1Pow: Tensors,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    l2_decay: float = 0.0,
) -> None:
    """moment = beta1 * moment + (1 - beta1) * grad; norm = max(beta2 * norm + epsilon, |grad|);

    param -= rate / (1 - beta1_pow) * moment / norm.
    """
    Grad = penalized(Grad, Param, l2_decay)
    decay_to(Moment, Grad, beta1)
    lists.mul_(InfNorm, beta2)
    lists.add_(InfNorm, epsilon)
    lists.maximum_(InfNorm, lists.abs(Grad))
    rates = [rate / (1.0 - power) for rate, power in zip(LearningRate, Beta1Pow, strict=True)]
    _take_scaled_steps(Param, Moment, rates, InfNorm)


def _rmsprop_at_once(given: Given) -> None:
    centered = bool(given["centered"] and given["MeanGrad"])
    kinds = "Param Grad Moment MeanSquare" + " MeanGrad" * centered
    rates = numbers_of(given["LearningRate"])
    numbers = "decay epsilon momentum centered l2_decay"
    in_one_pass("rmsprop", {**given, "centered": centered}, kinds, numbers, rates)


@update("rmsprop", "Param Moment MeanSquare MeanGrad", at_once=_rmsprop_at_once, decays=True)
def rmsprop(
    Param: Tensors,
    MeanSquare: Tensors,
    MeanGrad: Tensors | None,
    LearningRate: Tensors,
    Grad: Tensors,
    Moment: Tensors,
    *,
    epsilon: float = 1e-10,
    decay: float = 0.9,
    momentum: float = 0.0,
    centered: bool = False,
    l2_decay: float = 0.0,
) -> None:
    """square = decay * square + (1 - decay) * grad²;

    moment = momentum * moment + rate * grad / sqrt(square + epsilon); param -= moment.
    centered: the square of the mean gradient, kept likewise, is taken off the square.
    """
    Grad = penalized(Grad, Param, l2_decay)
    decay_to_square(MeanSquare, Grad, decay)
    spread = list(lists.add(MeanSquare, epsilon))
    if centered and MeanGrad:
        decay_to(MeanGrad, Grad, decay)
        lists.addcmul_(spread, MeanGrad, MeanGrad, value=-1.0)
    lists.sqrt_(spread)
    lists.mul_(Moment, momentum)
    add_quotients(Moment, Grad, spread, LearningRate)
    lists.sub_(Param, Moment)
