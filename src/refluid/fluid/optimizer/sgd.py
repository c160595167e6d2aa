"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.fluid.gradient_clip import GradientClipBase
from refluid.fluid.optimizer.base import Optimizer, Rate
from refluid.fluid.regularizer import WeightDecayRegularizer
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.variable import Parameter, Variable


class SGDOptimizer(Optimizer):
    """param -= learning_rate * grad. Arguments as in `Optimizer`."""

    def __init__(
        self,
        learning_rate: Rate,
        parameter_list: Sequence[Parameter | str] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self.type = "sgd"

    def _append_optimize_op(
        self, block: Block, param_and_grad: tuple[Parameter, Variable]
    ) -> Operator:
        param, grad = param_and_grad
        return block.append_op(
            type=self.type,
            inputs={
                "Param": param,
                "Grad": grad,
                "LearningRate": self._create_param_lr(param_and_grad),
            },
            outputs={"ParamOut": param},
        )


SGD = SGDOptimizer
