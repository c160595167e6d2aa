"""Adam: adaptive moment estimation, and its relatives Adamax and LAMB."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from refluid.build import apply
from refluid.fluid.clipping.gradients import GradientClipBase
from refluid.fluid.optimizer.base import ParamGrad, Rate
from refluid.fluid.optimizer.kept import KeepingOptimizer
from refluid.fluid.regularizer import WeightDecayRegularizer
from refluid.ir.ambient import name_scope
from refluid.ir.block import Block
from refluid.ir.variable import Parameter, Variable

_BETAS = {"beta1": 0.9, "beta2": 0.999}
_POWERS = {"Beta1Pow": "beta1", "Beta2Pow": "beta2"}


class AdamOptimizer(KeepingOptimizer):
    """Adam (Kingma and Ba, 2014), epsilon added to the root of the uncorrected moment:

        moment1 = beta1 * moment1 + (1 - beta1) * grad
        moment2 = beta2 * moment2 + (1 - beta2) * grad ** 2
        rate = learning_rate * sqrt(1 - beta2 ** t) / (1 - beta1 ** t)
        param -= rate * moment1 / (sqrt(moment2) + epsilon)

    beta1, beta2: floats, or float32 variables of shape (1,).
    lazy_mode: with sparse gradients, only rows that have a gradient are updated.
    Other arguments as in `Optimizer`.
    """

    kept: ClassVar = {
        "Moment1": "moment1",
        "Moment2": "moment2",
        "Beta1Pow": "beta1_pow_acc",
        "Beta2Pow": "beta2_pow_acc",
    }

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float | Variable = _BETAS["beta1"],
        beta2: float | Variable = _BETAS["beta2"],
        epsilon: float = 1e-08,
        parameter_list: Sequence[Parameter | str] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        lazy_mode: bool = False,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self.type = "adam"
        self._betas = {"beta1": beta1, "beta2": beta2}
        self._epsilon = epsilon
        self._lazy_mode = lazy_mode

    def _start(self, slot: str, param: Parameter) -> Mapping[str, Any]:
        if slot not in _POWERS:
            return {}
        # The powers are read on the host at every step, so they are kept there.
        beta = _POWERS[slot]
        start = self._attributes(param).get(beta, _BETAS[beta])
        return {"fill_value": start, "shape": [1], "device": "cpu"}

    def _tensors(self) -> Mapping[str, Variable]:
        return {
            f"{name.capitalize()}Tensor": beta
            for name, beta in self._betas.items()
            if isinstance(beta, Variable)
        }

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        numbers = {
            name: beta for name, beta in self._betas.items() if not isinstance(beta, Variable)
        }
        return {
            "epsilon": self._epsilon,
            "lazy_mode": self._lazy_mode,
            "min_row_size_to_use_multithread": 1000,
            **numbers,
        }


class LambOptimizer(AdamOptimizer):
    """LAMB (You et al., 2019): Adam's step with weight decay, scaled to the parameter's length.

        ratio = moment1 / (sqrt(moment2) + epsilon) + lamb_weight_decay * param
        param -= learning_rate * |param| / |ratio| * ratio

    exclude_from_weight_decay_fn: takes a parameter, says whether it has no weight decay.
    Other arguments as in `AdamOptimizer`.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = _BETAS["beta1"],
        beta2: float = _BETAS["beta2"],
        epsilon: float = 1e-6,
        parameter_list: Sequence[Parameter | str] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        exclude_from_weight_decay_fn: Callable[[Parameter], bool] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            beta1,
            beta2,
            epsilon,
            parameter_list,
            regularization,
            grad_clip,
            name,
        )
        self.type = "lamb"
        self._weight_decay = lamb_weight_decay
        self._exclude_from_weight_decay_fn = exclude_from_weight_decay_fn

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        exempt = self._exclude_from_weight_decay_fn
        free = exempt is not None and exempt(param)
        decay = 0.0 if free else self._weight_decay
        return {**self._betas, "epsilon": self._epsilon, "weight_decay": decay}


class AdamaxOptimizer(KeepingOptimizer):
    """Adamax: Adam with the largest gradient in place of the second moment.

        moment = beta1 * moment + (1 - beta1) * grad
        norm = max(beta2 * norm + epsilon, |grad|)
        param -= learning_rate / (1 - beta1 ** t) * moment / norm

    Other arguments as in `Optimizer`.
    """

    kept: ClassVar = {"Moment": "moment", "InfNorm": "inf_norm", "Beta1Pow": "beta1_pow_acc"}

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = _BETAS["beta1"],
        beta2: float = _BETAS["beta2"],
        epsilon: float = 1e-08,
        parameter_list: Sequence[Parameter | str] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self.type = "adamax"
        self._beta1 = beta1
        self._beta2 = beta2
        self._epsilon = epsilon

    def _start(self, slot: str, param: Parameter) -> Mapping[str, Any]:
        if slot != "Beta1Pow":
            return {}
        return {"fill_value": self._attributes(param)["beta1"], "shape": [1]}

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        return {"beta1": self._beta1, "beta2": self._beta2, "epsilon": self._epsilon}

    def _finish_update(self, block: Block, parameters_and_grads: Sequence[ParamGrad]) -> None:
        for param, grad in parameters_and_grads:
            if grad is None or not param.trainable:
                continue
            power, beta = self._get_accumulator("beta1_pow_acc", param), self._attributes(param)
            with param.block.program.optimized_guard([param, grad]), name_scope("adamx"):
                attrs = {"scale": beta["beta1"]}
                apply("scale", {"X": power}, {"Out": power}, attrs, block=block)


Adam = AdamOptimizer
Lamb = LambOptimizer
Adamax = AdamaxOptimizer
