"""torch's fused optimizer steps for lists of tensors, in place, as far as refluid uses them.

`lr` is a number or a tensor of one element. The tensors of one parameter have equal shapes and
strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.parts import part

Tensors = Sequence[Tensor]


def _descend(param: Tensor, step: Tensor, lr: Any) -> None:
    if isinstance(lr, Tensor):
        param.sub_(step * lr)
    else:
        param.sub_(step, alpha=lr)


def _decayed(grads: Tensors, params: Tensors, decay: float) -> Tensors:
    """grad + decay * param."""
    if not decay:
        return grads
    return [grad.add(param, alpha=decay) for grad, param in zip(grads, params, strict=True)]


def _sgd_each(
    params: Tensors,
    grads: Tensors,
    velocities: Tensors,
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    nesterov: bool,
    **_none: Any,
) -> None:
    grads = _decayed(grads, params, weight_decay)
    for i, (param, grad) in enumerate(zip(params, grads, strict=True)):
        if not velocities:
            _descend(param, grad, lr)
            continue
        velocity = velocities[i].mul_(momentum).add_(grad)
        _descend(param, grad.add(velocity, alpha=momentum) if nesterov else velocity, lr)


def _adam_each(
    params: Tensors,
    grads: Tensors,
    moments1: Tensors,
    moments2: Tensors,
    _maxima: Tensors,
    counts: Tensors,
    *,
    lr: Any,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    **_none: Any,
) -> None:
    grads = _decayed(grads, params, weight_decay)
    every = zip(params, grads, moments1, moments2, counts, strict=True)
    for param, grad, moment1, moment2, count in every:
        moment1.lerp_(grad, 1.0 - beta1)
        moment2.mul_(beta2).addcmul_(grad, grad, value=1.0 - beta2)
        done = float(count)
        spread = moment2.sqrt().div_((1.0 - beta2**done) ** 0.5).add_(eps)
        _descend(param, moment1 / spread, lr / (1.0 - beta1**done))


def _adagrad_each(
    params: Tensors, grads: Tensors, moments: Tensors, _counts: Tensors, **named: Any
) -> None:
    for param, grad, moment in zip(params, grads, moments, strict=True):
        moment.addcmul_(grad, grad)
        _descend(param, grad / moment.sqrt().add_(named["eps"]), named["lr"])


def _unscale_each(values: Tensors, found: Tensor, inverse: Tensor) -> None:
    for value in values:
        found.masked_fill_(~torch.isfinite(value).all(), 1.0)
        value.mul_(inverse.reshape(()))


sgd_ = part("torch._fused_sgd_", _sgd_each)
adam_ = part("torch._fused_adam_", _adam_each)
adagrad_ = part("torch._fused_adagrad_", _adagrad_each)
unscale_ = part("torch._amp_foreach_non_finite_check_and_unscale_", _unscale_each)
