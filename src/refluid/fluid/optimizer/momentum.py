"""Gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.fluid.gradient_clip import GradientClipBase
from refluid.fluid.optimizer.base import Optimizer, Rate
from refluid.fluid.regularizer import WeightDecayRegularizer
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.variable import Parameter, Variable

_VELOCITY = "velocity"


class MomentumOptimizer(Optimizer):
    """velocity = momentum * velocity + grad; param -= learning_rate * velocity.

    With `use_nesterov`: param -= learning_rate * (grad + momentum * velocity).
    Other arguments as in `Optimizer`.
    """

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

    def _create_accumulators(self, block: Block, parameters: Sequence[Parameter]) -> None:
        for param in parameters:
            self._add_accumulator(_VELOCITY, param)

    def _append_optimize_op(
        self, block: Block, param_and_grad: tuple[Parameter, Variable]
    ) -> Operator:
        param, grad = param_and_grad
        velocity = self._get_accumulator(_VELOCITY, param)
        return block.append_op(
            type=self.type,
            inputs={
                "Param": param,
                "Grad": grad,
                "Velocity": velocity,
                "LearningRate": self._create_param_lr(param_and_grad),
            },
            outputs={"ParamOut": param, "VelocityOut": velocity},
            attrs={"mu": self._momentum, "use_nesterov": self._use_nesterov},
        )


Momentum = MomentumOptimizer
