"""Follow the regularised leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from refluid.core.notices import tell_once
from refluid.fluid.clipping.gradients import GradientClipBase
from refluid.fluid.optimizer.base import Rate
from refluid.fluid.optimizer.kept import KeepingOptimizer
from refluid.fluid.regularizer import WeightDecayRegularizer
from refluid.ir.variable import Parameter


class FtrlOptimizer(KeepingOptimizer):
    """FTRL (McMahan et al., 2013):

        new = squared + grad ** 2
        linear += grad - (new ** -lr_power - squared ** -lr_power) / learning_rate * param
        param = (l1 * sign(linear) - linear) / (new ** -lr_power / learning_rate + 2 * l2)
                where |linear| > l1, else 0

    l1, l2: strengths of the two penalties; as in Fluid 1.8.5, l1 is taken for l2 (the log says so
    where they differ). Of a sparse gradient only its rows are touched.
    Other arguments as in `Optimizer`.
    """

    kept: ClassVar = {"SquaredAccumulator": "squared", "LinearAccumulator": "linear"}

    def __init__(
        self,
        learning_rate: Rate,
        l1: float = 0.0,
        l2: float = 0.0,
        lr_power: float = -0.5,
        parameter_list: Sequence[Parameter | str] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self.type = "ftrl"
        self._l1 = l1
        self._l2 = l2
        self._lr_power = lr_power

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        if self._l2 != self._l1:
            tell_once(
                f"Ftrl: Fluid 1.8.5 gives its operator l1={self._l1} as l2 too, whatever l2 is "
                f"({self._l2}), and so does refluid"
            )
        return {"l1": self._l1, "l2": self._l1, "lr_power": self._lr_power}


Ftrl = FtrlOptimizer
