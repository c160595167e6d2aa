"""Optimizers whose rate adapts to the gradients that there were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from refluid.build import apply, op
from refluid.fluid import optimizer as fluid
from refluid.fluid.clipping.gradients import GradientClipBase
from refluid.ir.ambient import name_scope
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.variable import Parameter, Variable
from refluid.paddle.optimizer.descending import Rate
from refluid.paddle.optimizer.masters import own_name
from refluid.paddle.optimizer.updating import Optimizer
from refluid.paddle.tensor.making import number_of


class Adam(Optimizer, fluid.AdamOptimizer):
    """Adam, as `fluid.optimizer.Adam`, with epsilon added to the root of the corrected moment.

    lazy_mode: of sparse gradients only the rows that have one are updated. multi_precision,
    use_multi_tensor: change nothing here.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: float = 1e-08,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: GradientClipBase | None = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        beta1, beta2 = number_of(beta1), number_of(beta2)
        for label, beta in (("beta1", beta1), ("beta2", beta2)):
            if not isinstance(beta, Variable) and not 0 <= beta < 1:
                raise ValueError(f"Invaild value of {label}, expect {label} in [0,1).")
        listed, decay = self._given(learning_rate, parameters, weight_decay)
        fluid.AdamOptimizer.__init__(
            self, 0.0, beta1, beta2, epsilon, listed, decay, grad_clip, name, lazy_mode
        )
        self.type = "adam_v2"
        self._take_rate(learning_rate)


class AdamW(Adam):
    """Adam with decay apart from the gradients: param *= 1 - rate * weight_decay before each step.

    apply_decay_param_fun: takes a parameter's name, says whether it decays; all do by default.
    lr_ratio: takes a parameter, gives the factor of its learning rate.
    """

    _decays = False

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: float = 1e-08,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = 0.01,
        lr_ratio: Callable[[Any], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: GradientClipBase | None = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        if not isinstance(weight_decay, float | Variable):
            raise TypeError("weight_decay should be float or Tensor.")
        super().__init__(
            learning_rate, beta1, beta2, epsilon, parameters, None, grad_clip, lazy_mode, name=name
        )
        self._coefficient, self._lr_ratio = weight_decay, lr_ratio
        self._decays_by_name = apply_decay_param_fun

    def _create_param_lr(self, param_and_grad: tuple[Parameter, Variable]) -> Variable:
        rate = super()._create_param_lr(param_and_grad)
        return rate if self._lr_ratio is None else rate * float(self._lr_ratio(param_and_grad[0]))

    def _share(self, param: Parameter, rate: Variable) -> Variable:
        """The share of a parameter that a step leaves: 1 - rate * weight_decay."""
        share = self._group(param).get("weight_decay", self._coefficient)
        if isinstance(share, Variable):
            rate, share = rate * share, 1.0
        return op("scale", {"X": rate}, {"scale": -share, "bias": 1.0})

    def _append_optimize_op(
        self, block: Block, param_and_grad: tuple[Parameter, Variable]
    ) -> Operator:
        param = param_and_grad[0]
        chosen = self._decays_by_name
        if chosen is None or chosen(own_name(param)):
            with name_scope("weight_decay"):
                rate = self._create_param_lr(param_and_grad)
                inputs = {"X": param, "Y": self._share(param, rate)}
                apply("elementwise_mul", inputs, {"Out": param}, {"axis": -1}, block=block)
        return super()._append_optimize_op(block, param_and_grad)


class Adamax(Optimizer, fluid.AdamaxOptimizer):
    """Adamax, as `fluid.optimizer.Adamax`."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        beta1, beta2 = number_of(beta1), number_of(beta2)
        listed, decay = self._given(learning_rate, parameters, weight_decay)
        fluid.AdamaxOptimizer.__init__(
            self, 0.0, beta1, beta2, epsilon, listed, decay, grad_clip, name
        )
        self._take_rate(learning_rate)


class Adagrad(Optimizer, fluid.AdagradOptimizer):
    """Adagrad, as `fluid.optimizer.Adagrad`."""

    def __init__(
        self,
        learning_rate: Rate,
        epsilon: float = 1e-06,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        listed, decay = self._given(learning_rate, parameters, weight_decay)
        fluid.AdagradOptimizer.__init__(
            self, 0.0, epsilon, listed, decay, grad_clip, name, initial_accumulator_value
        )
        self._take_rate(learning_rate)


class Adadelta(Optimizer, fluid.AdadeltaOptimizer):
    """Adadelta, as `fluid.optimizer.Adadelta`, but that steps are multiplied by the learning rate.

    A step is scaled by the updates before it; Fluid's counts for its own scale.
    """

    uses_rate = True

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        epsilon: float = 1e-06,
        rho: float = 0.95,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        listed, decay = self._given(learning_rate, parameters, weight_decay)
        fluid.AdadeltaOptimizer.__init__(self, 0.0, epsilon, rho, listed, decay, grad_clip, name)
        self.type = "adadelta_v2"
        self._take_rate(learning_rate)


class RMSProp(Optimizer, fluid.RMSPropOptimizer):
    """RMSProp, as `fluid.optimizer.RMSProp`."""

    def __init__(
        self,
        learning_rate: Rate,
        rho: float = 0.95,
        epsilon: float = 1e-06,
        momentum: float = 0.0,
        centered: bool = False,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        listed, decay = self._given(learning_rate, parameters, weight_decay)
        fluid.RMSPropOptimizer.__init__(
            self, 0.0, rho, epsilon, momentum, centered, listed, decay, grad_clip, name
        )
        self._take_rate(learning_rate)
