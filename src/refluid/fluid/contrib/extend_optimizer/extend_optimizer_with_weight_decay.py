"""Weight decay apart from the gradients (Loshchilov and Hutter, 2017), for any optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from refluid.fluid import layers
from refluid.fluid.optimizer import Optimizer
from refluid.ir.ambient import name_scope
from refluid.ir.defaults import program_guard
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable

__all__ = ["extend_with_decoupled_weight_decay"]

_SCOPE = "weight_decay"


class DecoupledWeightDecay:
    """Mixed into an optimizer: new_param = optimized_param - coeff * param.

    coeff: a float or a float variable; TypeError for others. apply_decay_param_fun: takes a
    parameter's name, says whether it decays; all do by default. kwargs: the optimizer's own.
    """

    def __init__(
        self,
        coeff: float | Variable = 0.0,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(coeff, float | Variable):
            raise TypeError("coeff should be float or Variable.")
        self._coeff = coeff
        self._apply_decay_param_fun = apply_decay_param_fun
        super().__init__(**kwargs)

    def backward(self, **kargs: Any) -> Any:
        """The optimizer's own."""
        return super().backward(**kargs)  # type: ignore[misc]

    def apply_optimize(self, **kargs: Any) -> Any:
        """The optimizer's own."""
        return super().apply_optimize(**kargs)  # type: ignore[misc]

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
    ) -> tuple[Any, Any]:
        """As the optimizer's `minimize`; what decays is taken from the parameters as they were."""
        pairs = self.backward(
            loss=loss,
            startup_program=startup_program,
            parameter_list=parameter_list,
            no_grad_set=no_grad_set,
        )
        with program_guard(loss.block.program, startup_program):
            decays = [self._decay(param, grad) for param, grad in pairs if self._decays(param)]
        ops = self.apply_optimize(loss=loss, startup_program=startup_program, params_grads=pairs)
        with program_guard(loss.block.program, startup_program):
            for param, grad, decay in decays:
                with param.block.program.optimized_guard([param, grad]), name_scope(_SCOPE):
                    layers.assign(layers.elementwise_sub(x=param, y=decay), output=param)
        return ops, pairs

    def _decays(self, param: Parameter) -> bool:
        chosen = self._apply_decay_param_fun
        decays = not isinstance(self._coeff, float) or self._coeff != 0.0
        return decays and (chosen is None or bool(chosen(param.name)))

    def _decay(self, param: Parameter, grad: Variable) -> tuple[Parameter, Variable, Variable]:
        with param.block.program.optimized_guard([param, grad]), name_scope(_SCOPE):
            return param, grad, param * self._coeff

    def __str__(self) -> str:
        return " ".join(["Weight Decay, params:", str(self._coeff)])


def extend_with_decoupled_weight_decay(base_optimizer: type[Optimizer]) -> type:
    """A class like `base_optimizer` with decoupled weight decay; TypeError for other things.

    Its first argument is `weight_decay`, then `apply_decay_param_fun`; the optimizer's own are
    given by name.

        AdamW = fluid.contrib.extend_with_decoupled_weight_decay(fluid.optimizer.Adam)
        AdamW(weight_decay=0.01, learning_rate=0.001).minimize(loss)
    """
    if not (isinstance(base_optimizer, type) and issubclass(base_optimizer, Optimizer)):
        raise TypeError("The input(base_optimizer) should be a derived class of Optimizer.")

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecay, base_optimizer):  # type: ignore[misc, valid-type]
        """`new_param = optimized_param - weight_decay * param`."""

        def __init__(
            self,
            weight_decay: float | Variable,
            apply_decay_param_fun: Callable[[str], bool] | None = None,
            **kwargs: Any,
        ) -> None:
            super().__init__(weight_decay, apply_decay_param_fun, **kwargs)

    return OptimizerWithDecoupledWeightDecay
