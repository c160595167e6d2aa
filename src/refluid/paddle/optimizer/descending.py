"""Gradient descent, momentum, and rates by layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from refluid.fluid import optimizer as fluid
from refluid.fluid.clipping.gradients import GradientClipBase
from refluid.ir.variable import Parameter
from refluid.paddle.optimizer.lr import LRScheduler
from refluid.paddle.optimizer.updating import Optimizer

Rate = float | LRScheduler


class SGD(Optimizer, fluid.SGDOptimizer):
    """param -= learning_rate * grad. Arguments as of `Optimizer`."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: GradientClipBase | None = None,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        given = self._given(learning_rate, parameters, weight_decay)
        fluid.SGDOptimizer.__init__(self, 0.0, *given, grad_clip, name)
        self._take_rate(learning_rate)


class Momentum(Optimizer, fluid.MomentumOptimizer):
    """velocity = momentum * velocity + grad; param -= learning_rate * velocity.

    use_nesterov: param -= learning_rate * (grad + momentum * velocity). rescale_grad: what
    gradients are multiplied by first. multi_precision, use_multi_tensor: change nothing here:
    parameters are float32 in mixed precision, and updates of one kind are one call.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        momentum: float = 0.9,
        parameters: Sequence[Any] | None = None,
        use_nesterov: bool = False,
        weight_decay: Any = None,
        grad_clip: GradientClipBase | None = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        if momentum is None:
            raise ValueError("momentum is not set")
        listed, decay = self._given(learning_rate, parameters, weight_decay)
        fluid.MomentumOptimizer.__init__(
            self, 0.0, momentum, listed, use_nesterov, decay, grad_clip, name
        )
        self._rescale_grad = float(rescale_grad)
        self._take_rate(learning_rate)

    def apply_gradients(self, params_grads: Sequence[Any]) -> Any:
        """Updates of (parameter, gradient) pairs, gradients rescaled first."""
        if self._rescale_grad != 1.0:
            params_grads = [
                (param, None if grad is None else grad * self._rescale_grad)
                for param, grad in params_grads
            ]
        return super().apply_gradients(params_grads)


class LarsMomentum(Optimizer, fluid.LarsMomentumOptimizer):
    """LARS, as `fluid.optimizer.LarsMomentum`."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        momentum: float = 0.9,
        lars_coeff: float = 0.001,
        lars_weight_decay: float = 0.0005,
        parameters: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        listed, decay = self._given(learning_rate, parameters, regularization)
        fluid.LarsMomentumOptimizer.__init__(
            self, 0.0, momentum, lars_coeff, lars_weight_decay, listed, decay, grad_clip, name
        )
        self._take_rate(learning_rate)


class Lamb(Optimizer, fluid.LambOptimizer):
    """LAMB: Adam's step with weight decay, scaled to the parameter's length.

    exclude_from_weight_decay_fn: takes a parameter, says whether it has no weight decay.
    always_adapt: steps without weight decay are scaled too.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        parameters: Sequence[Any] | None = None,
        grad_clip: GradientClipBase | None = None,
        exclude_from_weight_decay_fn: Callable[[Parameter], bool] | None = None,
        multi_precision: bool = False,
        always_adapt: bool = False,
        name: str | None = None,
    ) -> None:
        listed, _ = self._given(learning_rate, parameters, None)
        fluid.LambOptimizer.__init__(
            self,
            0.0,
            lamb_weight_decay,
            beta1,
            beta2,
            epsilon,
            listed,
            None,
            grad_clip,
            exclude_from_weight_decay_fn,
            name,
        )
        self.type, self._always_adapt = "lamb_v2", bool(always_adapt)
        self._take_rate(learning_rate)

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        attrs = {**super()._attributes(param), "always_adapt": self._always_adapt}
        exempt = self._exclude_from_weight_decay_fn
        return attrs | {"weight_decay": 0.0} if exempt is not None and exempt(param) else attrs
