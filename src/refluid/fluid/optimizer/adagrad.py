"""Optimizers that scale each element by the gradients it has had: Adagrad and those after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from refluid.fluid.clipping.gradients import GradientClipBase
from refluid.fluid.optimizer.base import Rate
from refluid.fluid.optimizer.kept import KeepingOptimizer
from refluid.fluid.regularizer import WeightDecayRegularizer
from refluid.ir.variable import Parameter


class AdagradOptimizer(KeepingOptimizer):
    """moment += grad ** 2; param -= learning_rate * grad / (sqrt(moment) + epsilon).

    initial_accumulator_value: where the moments start. Other arguments as in `Optimizer`.
    """

    kept: ClassVar = {"Moment": "moment"}

    def __init__(
        self,
        learning_rate: Rate,
        epsilon: float = 1e-6,
        parameter_list: Sequence[Parameter | str] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self.type = "adagrad"
        self._epsilon = epsilon
        self.initial_accumulator_value = initial_accumulator_value

    def _start(self, slot: str, param: Parameter) -> Mapping[str, Any]:
        return {"fill_value": self.initial_accumulator_value}

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        return {"epsilon": self._epsilon}


class DecayedAdagradOptimizer(KeepingOptimizer):
    """Adagrad with moment = decay * moment + (1 - decay) * grad ** 2.

    Other arguments as in `Optimizer`.
    """

    kept: ClassVar = {"Moment": "moment"}

    def __init__(
        self,
        learning_rate: Rate,
        decay: float = 0.95,
        epsilon: float = 1e-6,
        parameter_list: Sequence[Parameter | str] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self.type = "decayed_adagrad"
        self._decay = decay
        self._epsilon = epsilon

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        return {"decay": self._decay, "epsilon": self._epsilon}


class AdadeltaOptimizer(KeepingOptimizer):
    """Adadelta (Zeiler, 2012). With E the mean that decays by rho:

        step = grad * sqrt((E[step ** 2] + epsilon) / (E[grad ** 2] + epsilon))
        param -= step

    learning_rate: part of Fluid's interface; the update doesn't use it.
    Other arguments as in `Optimizer`.
    """

    kept: ClassVar = {
        "AvgSquaredGrad": "_avg_squared_grad",
        "AvgSquaredUpdate": "_avg_squared_update",
    }
    uses_rate = False

    def __init__(
        self,
        learning_rate: Rate,
        epsilon: float = 1e-6,
        rho: float = 0.95,
        parameter_list: Sequence[Parameter | str] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self.type = "adadelta"
        self._epsilon = epsilon
        self._rho = rho

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        return {"epsilon": self._epsilon, "rho": self._rho}


class RMSPropOptimizer(KeepingOptimizer):
    """RMSProp:

        square = rho * square + (1 - rho) * grad ** 2
        moment = momentum * moment + learning_rate * grad / sqrt(square + epsilon)
        param -= moment

    centered: the square of the mean gradient, which decays likewise, is taken off `square`.
    Other arguments as in `Optimizer`.
    """

    kept: ClassVar = {"Moment": "momentum", "MeanSquare": "mean_square", "MeanGrad": "mean_grad"}

    def __init__(
        self,
        learning_rate: Rate,
        rho: float = 0.95,
        epsilon: float = 1e-6,
        momentum: float = 0.0,
        centered: bool = False,
        parameter_list: Sequence[Parameter | str] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self.type = "rmsprop"
        self._rho = rho
        self._epsilon = epsilon
        self._momentum = momentum
        self._centered = centered

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        return {
            "epsilon": self._epsilon,
            "decay": self._rho,
            "momentum": self._momentum,
            "centered": self._centered,
        }


Adagrad = AdagradOptimizer
DecayedAdagrad = DecayedAdagradOptimizer
Adadelta = AdadeltaOptimizer
RMSProp = RMSPropOptimizer
