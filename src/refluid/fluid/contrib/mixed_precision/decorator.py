"""`decorate`: an optimizer that trains in half precision, with a scaled loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from refluid.build import op
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.fluid import layers
from refluid.fluid.clipping.gradients import over_all, over_members
from refluid.fluid.contrib.mixed_precision.fp16_lists import AutoMixedPrecisionLists
from refluid.fluid.contrib.mixed_precision.fp16_utils import (
    append_scale_update,
    rewrite_for,
    update_role_var_grad,
)
from refluid.fluid.functions.control.conditional import ConditionalBlock
from refluid.fluid.optimizer.base import Optimizer, ParamGrad
from refluid.fluid.optimizer.stepping import goes_around
from refluid.ir.defaults import default_main_program, program_guard
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable

__all__ = ["AutoMixedPrecisionLists", "decorate"]

Names = Sequence[Parameter | str] | None


class OptimizerWithMixedPrecision:
    """An optimizer whose program computes in half precision; `decorate` makes it.

    Parameters, and what the optimizer keeps beside them, stay float32. The loss is multiplied by
    a scale before the backward pass, and gradients divided by it before they are used, so that
    small gradients do not vanish in float16. A step in which a gradient is inf or nan changes
    neither parameters nor the optimizer's state, and a dynamic scale is lowered. `half` is the
    element type.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        amp_lists: AutoMixedPrecisionLists | None,
        init_loss_scaling: float,
        use_dynamic_loss_scaling: bool,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int,
        incr_ratio: float,
        decr_ratio: float,
    ) -> None:
        if init_loss_scaling <= 0:
            raise ValueError(f"init_loss_scaling must be positive, not {init_loss_scaling}")
        goes_around("mixed_precision.decorate", optimizer, "backward")
        self._optimizer = optimizer
        self._amp_lists = amp_lists or AutoMixedPrecisionLists()
        self._init_loss_scaling = float(init_loss_scaling)
        self._use_dynamic_loss_scaling = use_dynamic_loss_scaling
        self._how = incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio
        self.half = VarType.FP16
        self._state: tuple[Variable, Variable, Variable] | None = None
        self._scaled_loss: Variable | None = None

    def get_loss_scaling(self) -> Variable:
        """The current loss scale, float32 of shape (1,). RuntimeError before `backward`."""
        return self._made()[0]

    def get_scaled_loss(self) -> Variable | None:
        """The loss times the scale, None before `backward`."""
        return self._scaled_loss

    def _made(self) -> tuple[Variable, Variable, Variable]:
        if self._state is None:
            raise RuntimeError("the loss scale is made by minimize() or backward(): call one first")
        return self._state

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Names = None,
        no_grad_set: Iterable[Variable | str] | None = None,
        callbacks: Sequence[Callable[..., Any]] | None = None,
    ) -> list[ParamGrad]:
        """Inserts the casts and appends the gradients of the scaled loss.

        Arguments as of `Optimizer.backward`. Returns (parameter, scaled gradient) pairs.
        """
        program = loss.block.program
        with program_guard(program, startup_program):
            self._state = self._create_state()
            rewrite_for(program, self._amp_lists, self.half)
            full = loss if loss.dtype != self.half else layers.cast(loss, "float32")
            self._scaled_loss = full * self._state[0]
        pairs = self._optimizer.backward(
            self._scaled_loss, startup_program, parameter_list, no_grad_set, callbacks
        )
        update_role_var_grad(program, pairs)
        return pairs

    def _create_state(self) -> tuple[Variable, Variable, Variable]:
        made = [
            layers.create_global_var(
                name=names.generate(name), shape=[1], value=value, dtype=dtype, persistable=True
            )
            for name, value, dtype in (
                ("loss_scaling", self._init_loss_scaling, "float32"),
                ("num_good_steps", 0, "int32"),
                ("num_bad_steps", 0, "int32"),
            )
        ]
        return made[0], made[1], made[2]

    def apply_gradients(self, scaled_params_grads: Sequence[ParamGrad]) -> list[Operator]:
        """Appends the check of the gradients, and the updates: a branch taken if all are finite.

        scaled_params_grads: what `backward` returned. Returns the update operators.
        """
        grads = [grad for _, grad in scaled_params_grads if grad is not None]
        state = self._made()
        program = default_main_program()
        with program.optimized_guard([]):
            makes = {"FoundInfinite": VarType.BOOL, "Out": grads}
            inputs = {"X": grads, "Scale": state[0]}
            found = op("check_finite_and_unscale", inputs, None, makes, stop_gradient=True)[0]
            found = _anywhere(found, {param.split_in for param, _ in scaled_params_grads})
            found = over_all(found, "max")
            append_scale_update(
                grads, found, state, self._how, adapt=self._use_dynamic_loss_scaling
            )
            finite = layers.logical_not(found)
            with ConditionalBlock([finite], is_scalar_condition=True).block():
                return self._optimizer.apply_gradients(scaled_params_grads)

    def apply_optimize(
        self, loss: Variable, startup_program: Program | None, params_grads: Sequence[ParamGrad]
    ) -> list[Operator]:
        """As `apply_gradients`, in the program of `loss`."""
        with program_guard(loss.block.program, startup_program):
            return self.apply_gradients(params_grads)

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Names = None,
        no_grad_set: Iterable[Variable | str] | None = None,
    ) -> tuple[list[Operator], list[ParamGrad]]:
        """Both parts. Returns the update operators and the (parameter, scaled gradient) pairs."""
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, pairs), pairs


def _anywhere(found: Variable, groups: set[int]) -> Variable:
    """Whether one of those who have parts of split parameters has found it."""
    for number in sorted(groups - {0}):
        found = layers.cast(over_members(layers.cast(found, "float32"), number), "bool")
    return found


def decorate(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    init_loss_scaling: float = 2**15,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
) -> OptimizerWithMixedPrecision:
    """The optimizer with mixed precision: `minimize` of what it returns rewrites the program.

    amp_lists: which operators are half, `AutoMixedPrecisionLists()` where None.
    init_loss_scaling: the first scale, or the only one unless `use_dynamic_loss_scaling`. That
    multiplies it by incr_ratio after incr_every_n_steps finite steps in a row, and by decr_ratio
    after decr_every_n_nan_or_inf steps in a row whose gradients were inf or nan.

    Programs say float16. It is float16 on a GPU, and bfloat16 where a program runs on the CPU.

        optimizer = fluid.contrib.mixed_precision.decorate(fluid.optimizer.Adam(1e-3))
        optimizer.minimize(loss)
    """
    return OptimizerWithMixedPrecision(
        optimizer,
        amp_lists,
        init_loss_scaling,
        use_dynamic_loss_scaling,
        incr_every_n_steps,
        decr_every_n_nan_or_inf,
        incr_ratio,
        decr_ratio,
    )


# The name up to 1.7.
OptimizerWithMixedPrecison = OptimizerWithMixedPrecision
