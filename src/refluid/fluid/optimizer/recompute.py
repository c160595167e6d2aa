"""RecomputeOptimizer: another optimizer, whose backward pass keeps only checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from refluid.core.former import formerly
from refluid.fluid.optimizer.base import Optimizer, ParamGrad
from refluid.fluid.optimizer.stepping import goes_around
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable


class RecomputeOptimizer(Optimizer):
    """Saves memory: of the forward pass only checkpoints are kept, the rest is computed again.

    optimizer: the one that updates parameters.

        adam = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.Adam(0.01))
        adam._set_checkpoints([hidden, prediction])
        adam.minimize(loss)
    """

    def __init__(self, optimizer: Optimizer) -> None:
        goes_around("RecomputeOptimizer", optimizer, "_learning_rate")
        self._optimizer = optimizer
        self._checkpoints: list[Variable | str] | None = None
        super().__init__(
            optimizer._learning_rate, optimizer._parameter_list, optimizer.regularization
        )

    def _set_checkpoints(self, checkpoints: Sequence[Variable | str]) -> None:
        """What is kept: variables (or names) on the way to the loss."""
        self._checkpoints = list(checkpoints)

    checkpoints = property(None, _set_checkpoints)  # an argument of `backward` before 1.8

    def load(self, stat_dict: Any) -> NoReturn:
        """There is nothing to load; raises NotImplementedError."""
        raise NotImplementedError("load function is not supported by Recompute Optimizer for now")

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
    ) -> tuple[list[Operator], list[ParamGrad]]:
        """As the inner optimizer's, with recomputation; AssertionError without checkpoints."""
        assert isinstance(loss, Variable), "The loss should be an Variable."
        self._require_checkpoints()
        params_grads = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, params_grads), params_grads

    @formerly("checkpoints", keep=True)
    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
        callbacks: Sequence[Callable[..., Any]] | None = None,
    ) -> list[ParamGrad]:
        """First part of `minimize`: the gradients. Returns (parameter, gradient) pairs."""
        self._require_checkpoints()
        return self._optimizer._append_backward(
            loss, startup_program, parameter_list, no_grad_set, callbacks, self._checkpoints
        )

    def apply_gradients(self, params_grads: Sequence[ParamGrad]) -> list[Operator]:
        """The inner optimizer's second part of `minimize`."""
        return self._optimizer.apply_gradients(params_grads)

    def apply_optimize(
        self,
        loss: Variable,
        startup_program: Program | None,
        params_grads: Sequence[ParamGrad],
    ) -> list[Operator]:
        """As `apply_gradients`, in the program of `loss`."""
        return self._optimizer.apply_optimize(loss, startup_program, params_grads)

    def _require_checkpoints(self) -> None:
        assert self._checkpoints is not None, "You should call _set_checkpoints first"
