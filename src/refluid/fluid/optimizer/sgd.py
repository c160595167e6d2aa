"""Stochastic gradient descent, plain and differentially private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refluid.fluid.clipping.gradients import GradientClipBase
from refluid.fluid.optimizer.base import Rate
from refluid.fluid.optimizer.kept import KeepingOptimizer
from refluid.fluid.regularizer import WeightDecayRegularizer
from refluid.ir.variable import Parameter


class SGDOptimizer(KeepingOptimizer):
    """param -= learning_rate * grad. Arguments as in `Optimizer`.

    Of a sparse gradient (`is_sparse` of an embedding) only its rows are touched.
    """

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


class DpsgdOptimizer(KeepingOptimizer):
    """Differentially private SGD (Abadi et al., 2016).

    clip: length to which a gradient is cut. batch_size, sigma: normal noise of standard
    deviation sigma, divided by batch_size, is added to it. Other arguments as in `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        clip: float = 0.9,
        batch_size: float = 0.999,
        sigma: float = 1e-8,
        parameter_list: Sequence[Parameter | str] | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list)
        self.type = "dpsgd"
        self._clip = clip
        self._batch_size = batch_size
        self._sigma = sigma
        self._seed: int | None = None

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        return {
            "clip": self._clip,
            "batch_size": self._batch_size,
            "sigma": self._sigma,
            "seed": self._seed or 0,
        }


SGD = SGDOptimizer
Dpsgd = DpsgdOptimizer
