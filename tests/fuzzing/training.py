"""Optimizers with clips, regularizers and schedules, drawn at random."""

from __future__ import annotations

from random import Random
from typing import Any

from refluid import fluid

O = fluid.optimizer  # noqa: E741
L = fluid.layers

_OPTIMIZERS: tuple[Any, ...] = (
    lambda rate, more: O.SGD(rate, **more),
    lambda rate, more: O.SGD(rate, **more),
    lambda rate, more: O.Momentum(rate, 0.9, **more),
    lambda rate, more: O.Momentum(rate, 0.9, use_nesterov=True, **more),
    lambda rate, more: O.LarsMomentum(rate, 0.9, **more),
    lambda rate, more: O.Adagrad(rate, **more),
    lambda rate, more: O.Adam(rate, **more),
    lambda rate, more: O.Adam(rate, lazy_mode=True, **more),
    lambda rate, more: O.Adamax(rate, **more),
    lambda rate, more: O.DecayedAdagrad(rate, **more),
    lambda rate, more: O.Adadelta(rate, **more),
    lambda rate, more: O.RMSProp(rate, centered=True, momentum=0.9, **more),
    lambda rate, more: O.Ftrl(rate, **more),
    lambda rate, more: O.Lamb(rate, **more),
)
_RATES: tuple[Any, ...] = (
    *[lambda: 0.01] * 4,
    lambda: L.exponential_decay(0.01, 3, 0.5, staircase=True),
    lambda: L.piecewise_decay([3, 7], [0.02, 0.01, 0.001]),
    lambda: L.noam_decay(16, 4),
    lambda: L.polynomial_decay(0.01, 5, cycle=True),
    lambda: L.cosine_decay(0.01, 2, 3),
    lambda: L.linear_lr_warmup(0.01, 4, 0.0, 0.01),
    lambda: L.inverse_time_decay(0.01, 3, 0.5),
)
_CLIPS: tuple[Any, ...] = (
    *[lambda: None] * 4,
    lambda: fluid.clip.GradientClipByGlobalNorm(0.5),
    lambda: fluid.clip.GradientClipByNorm(0.2),
    lambda: fluid.clip.GradientClipByValue(0.05),
)
_DECAYS: tuple[Any, ...] = (
    *[lambda: None] * 3,
    lambda: fluid.regularizer.L2Decay(0.01),
    lambda: fluid.regularizer.L1Decay(0.01),
)


def minimize(draw: Random, loss: Any) -> None:
    """Appends the training of one random kind."""
    make = draw.choice(_OPTIMIZERS)
    more = {"regularization": draw.choice(_DECAYS)(), "grad_clip": draw.choice(_CLIPS)()}
    make(draw.choice(_RATES)(), {key: one for key, one in more.items() if one}).minimize(loss)
