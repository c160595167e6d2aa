"""Adam: adaptive moment estimation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.fluid.gradient_clip import GradientClipBase
from refluid.fluid.optimizer.base import Optimizer, Rate
from refluid.fluid.regularizer import WeightDecayRegularizer
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.variable import Parameter, Variable

_SLOTS = {
    "Moment1": "moment1",
    "Moment2": "moment2",
    "Beta1Pow": "beta1_pow_acc",
    "Beta2Pow": "beta2_pow_acc",
}
_BETA1, _BETA2 = 0.9, 0.999


class AdamOptimizer(Optimizer):
    """Adam (Kingma and Ba, 2014), epsilon added to the root of the uncorrected moment:

        moment1 = beta1 * moment1 + (1 - beta1) * grad
        moment2 = beta2 * moment2 + (1 - beta2) * grad ** 2
        rate = learning_rate * sqrt(1 - beta2 ** t) / (1 - beta1 ** t)
        param -= rate * moment1 / (sqrt(moment2) + epsilon)

    beta1, beta2: floats, or float32 variables of shape (1,).
    lazy_mode: with sparse gradients, only rows that have a gradient are updated.
    Other arguments as in `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float | Variable = _BETA1,
        beta2: float | Variable = _BETA2,
        epsilon: float = 1e-08,
        parameter_list: Sequence[Parameter | str] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        lazy_mode: bool = False,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self.type = "adam"
        self._beta1 = beta1
        self._beta2 = beta2
        self._epsilon = epsilon
        self._lazy_mode = lazy_mode

    def _create_accumulators(self, block: Block, parameters: Sequence[Parameter]) -> None:
        # The powers are read on the host at every step, so they are kept there.
        first = _BETA1 if isinstance(self._beta1, Variable) else self._beta1
        second = _BETA2 if isinstance(self._beta2, Variable) else self._beta2
        for param in parameters:
            self._add_accumulator("moment1", param)
            self._add_accumulator("moment2", param)
            for name, value in (("beta1_pow_acc", first), ("beta2_pow_acc", second)):
                self._add_accumulator(name, param, fill_value=value, shape=[1], device="cpu")

    def _append_optimize_op(
        self, block: Block, param_and_grad: tuple[Parameter, Variable]
    ) -> Operator:
        param, grad = param_and_grad
        kept = {slot: self._get_accumulator(name, param) for slot, name in _SLOTS.items()}
        betas: dict[str, Any] = {"beta1": self._beta1, "beta2": self._beta2}
        tensors = {
            f"{name.capitalize()}Tensor": beta
            for name, beta in betas.items()
            if isinstance(beta, Variable)
        }
        return block.append_op(
            type=self.type,
            inputs={
                "Param": param,
                "Grad": grad,
                "LearningRate": self._create_param_lr(param_and_grad),
                **kept,
                **tensors,
            },
            outputs={
                "ParamOut": param,
                **{f"{slot}Out": var for slot, var in kept.items()},
            },
            attrs={
                "epsilon": self._epsilon,
                "lazy_mode": self._lazy_mode,
                "min_row_size_to_use_multithread": 1000,
                **{name: beta for name, beta in betas.items() if not isinstance(beta, Variable)},
            },
        )


Adam = AdamOptimizer
