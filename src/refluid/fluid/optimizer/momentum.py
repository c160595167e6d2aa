"""Gradient descent with momentum, plain and with layer-wise rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from refluid.fluid.clipping.gradients import GradientClipBase
from refluid.fluid.optimizer.base import Rate
from refluid.fluid.optimizer.kept import KeepingOptimizer
from refluid.fluid.regularizer import WeightDecayRegularizer
from refluid.ir.variable import Parameter


class MomentumOptimizer(KeepingOptimizer):
    """velocity = momentum * velocity + grad; param -= learning_rate * velocity.

    With `use_nesterov`: param -= learning_rate * (grad + momentum * velocity).
    Other arguments as in `Optimizer`.
    """

    kept: ClassVar = {"Velocity": "velocity"}

    def __init__(
        self,
        learning_rate: Rate,
        momentum: float,
        parameter_list: Sequence[Parameter | str] | None = None,
        use_nesterov: bool = False,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self.type = "momentum"
        self._momentum = momentum
        self._use_nesterov = bool(use_nesterov)

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        return {"mu": self._momentum, "use_nesterov": self._use_nesterov}


class LarsMomentumOptimizer(KeepingOptimizer):
    """LARS (You et al., 2017): momentum with a rate of its own for each parameter.

        rate = learning_rate * lars_coeff * |param| / (|grad| + lars_weight_decay * |param|)
        velocity = momentum * velocity + rate * (grad + lars_weight_decay * param)
        param -= velocity

    Other arguments as in `Optimizer`.
    """

    kept: ClassVar = {"Velocity": "velocity"}

    def __init__(
        self,
        learning_rate: Rate,
        momentum: float,
        lars_coeff: float = 0.001,
        lars_weight_decay: float = 0.0005,
        parameter_list: Sequence[Parameter | str] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self.type = "lars_momentum"
        self._momentum = momentum
        self._lars_coeff = float(lars_coeff)
        self._lars_weight_decay = float(lars_weight_decay)

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        return {
            "mu": self._momentum,
            "lars_coeff": self._lars_coeff,
            "lars_weight_decay": self._lars_weight_decay,
        }


Momentum = MomentumOptimizer
LarsMomentum = LarsMomentumOptimizer
