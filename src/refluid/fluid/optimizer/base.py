"""What all optimizers share: from a loss to the operators that update its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from refluid.autodiff.backward import append_backward
from refluid.autodiff.checks import of_a_program
from refluid.build import at_once
from refluid.core import names
from refluid.core.data_ends import made_once
from refluid.core.dtypes import VarType
from refluid.core.former import formerly
from refluid.engine import listening
from refluid.fluid import layers
from refluid.fluid.clip import append_gradient_clip_ops, error_clip_callback
from refluid.fluid.clipping.gradients import GradientClipBase
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.optimizer.precision import in_chosen_precision
from refluid.fluid.optimizer.stepping import Stepping, is_schedule
from refluid.fluid.regularizer import WeightDecayRegularizer, append_regularization_ops
from refluid.ir.ambient import name_scope
from refluid.ir.block import Block
from refluid.ir.defaults import default_main_program, program_guard
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable
from refluid.kernels.collecting import without_collections
from refluid.runtime.allocator import count_run

Rate = float | Variable
ParamGrad = tuple[Parameter, Variable | None]


class Optimizer(Stepping):
    """Base of optimizers; a new one overrides `_append_optimize_op` and, if it keeps values
    per parameter, `_create_accumulators`.

    learning_rate: a float, or a float variable of shape (1,) such as a schedule returns.
    parameter_list: the parameters to update, all trainable ones by default.
    regularization: weight decay for parameters that have none of their own.
    grad_clip: an instance of GradientClipByValue, -ByNorm or -ByGlobalNorm.
    name: goes into the names of accumulators.

    Raises TypeError for a learning rate or gradient clip of another type.
    """

    def __init__(
        self,
        learning_rate: Any,
        parameter_list: Sequence[Parameter | str] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        if not isinstance(learning_rate, float | Variable) and not is_schedule(learning_rate):
            raise TypeError(
                "learning rate should be float or Variable, "
                f"but it is {learning_rate!r} of {type(learning_rate).__name__}"
            )
        if grad_clip is not None and not isinstance(grad_clip, GradientClipBase):
            raise TypeError(
                "'grad_clip' should be an instance of GradientClipBase's derived class, "
                f"not {type(grad_clip).__name__}"
            )
        if regularization is not None and not callable(regularization):
            raise TypeError(
                "'regularization' should be an instance of WeightDecayRegularizer's derived "
                f"class, not {type(regularization).__name__}"
            )
        if isinstance(parameter_list, str) or not isinstance(parameter_list, Iterable | None):
            raise TypeError(
                "'parameter_list' should be a list of parameters or their names, "
                f"not {parameter_list!r}"
            )
        super().__init__(name)
        self.type = ""
        self.regularization = regularization
        self._grad_clip = grad_clip
        given: Any = parameter_list
        self._parameter_list = [*given] if isinstance(given, Iterator) else given
        self._dtype: VarType | None = None
        self._learning_rate = learning_rate
        self._learning_rate_map: dict[Program, Variable] = {}
        if isinstance(learning_rate, Variable) and not at_once():
            self._learning_rate_map[default_main_program()] = learning_rate

    # -- steps of minimize ----------------------------------------------------

    @formerly("grad_clip", keep=True)
    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
    ) -> tuple[list[Operator], list[ParamGrad]]:
        """Appends the operators that compute gradients of `loss` and update parameters.

        loss: shape (1,). startup_program: where accumulators are initialised, the default
        one unless given. parameter_list: what to update. no_grad_set: variables, or their
        names, that get no gradient.

        Returns the update operators and the (parameter, gradient) pairs.
        """
        assert isinstance(loss, Variable), "The loss should be an Variable."
        if at_once():
            step = partial(self._own_steps, loss) if self._overridden() else self._step
            found = made_once(partial(step, parameter_list))
            if listening.step_listener is not None:
                listening.step_listener(loss)
            count_run()
            return [], found
        loss = in_chosen_precision(loss)
        params_grads = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, params_grads), params_grads

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
        callbacks: Sequence[Callable[..., Any]] | None = None,
    ) -> list[ParamGrad]:
        """First part of `minimize`: the gradients. Returns (parameter, gradient) pairs.

        callbacks: called with the block and a dict after each gradient operator. Where operators
        run at once, the gradients are those that `loss.backward()` has left.
        """
        if at_once():
            return self._pairs_at_once(parameter_list)
        return self._append_backward(
            loss, startup_program, parameter_list, no_grad_set, callbacks, None
        )

    def _append_backward(
        self,
        loss: Variable,
        startup_program: Program | None,
        parameter_list: Sequence[Parameter | str] | None,
        no_grad_set: Iterable[Variable | str] | None,
        callbacks: Sequence[Callable[..., Any]] | None,
        checkpoints: Sequence[Variable | str] | None,
    ) -> list[ParamGrad]:
        assert callbacks is None or isinstance(callbacks, list), "callbacks should be a list"
        assert tuple(loss.shape) == (1,), (
            f"The loss.shape should be (1L,), but the current loss.shape is {loss.shape}. Maybe "
            "that you should call fluid.layers.mean to process the current loss."
        )
        of_a_program("append_backward", loss)
        self._dtype = loss.dtype
        with program_guard(loss.block.program, startup_program), without_collections():
            pairs = append_backward(
                loss,
                parameter_list or self._parameter_list,
                self._without_gradient(loss, no_grad_set),
                [error_clip_callback, *(callbacks or [])],
                checkpoints,
            )
        return cast(list[ParamGrad], pairs)

    @staticmethod
    def _without_gradient(loss: Variable, no_grad_set: Iterable[Variable | str] | None) -> set[str]:
        given = {one if isinstance(one, str) else one.name for one in no_grad_set or ()}
        params = loss.block.program.global_block().iter_parameters()
        return given | {param.name for param in params if not param.trainable}

    def apply_gradients(self, params_grads: Sequence[ParamGrad]) -> list[Operator]:
        """Second part of `minimize`: clips and decays the gradients, updates parameters.

        params_grads: what `backward` returned, or parameters with other gradients. Returns the
        update operators, none where operators run at once: the update is made then.
        """
        if at_once():
            made_once(partial(self._update_by, self._clipped_values(params_grads)))
            return []
        pairs = sorted(params_grads, key=lambda pair: pair[0].name)
        with without_collections():
            pairs = self._clipped(pairs)
            pairs = append_regularization_ops(pairs, self.regularization)
            return self._append_updates(pairs)

    def _clipped(self, pairs: list[ParamGrad]) -> list[ParamGrad]:
        found: list[ParamGrad] = (self._grad_clip or append_gradient_clip_ops)(pairs)
        return found

    def apply_optimize(
        self,
        loss: Variable,
        startup_program: Program | None,
        params_grads: Sequence[ParamGrad],
    ) -> list[Operator]:
        """As `apply_gradients`, in the program of `loss`."""
        if at_once():
            return self.apply_gradients(params_grads)
        with program_guard(loss.block.program, startup_program):
            return self.apply_gradients(params_grads)

    def _append_updates(self, pairs: Sequence[ParamGrad]) -> list[Operator]:
        program = default_main_program()
        block = program.current_block()
        start = len(block.ops)
        self.helper = LayerHelper(type(self).__name__)
        trainable = [pair for pair in pairs if pair[0].trainable]
        self._create_accumulators(program.global_block(), [param for param, _ in trainable])
        self._create_global_learning_rate()
        for param, grad in trainable:
            if grad is None:
                continue
            with program.optimized_guard([param, grad]), name_scope("optimizer"):
                self._append_optimize_op(block, (param, grad))
        self._finish_update(block, pairs)
        return list(block.ops[start:])

    # -- learning rate --------------------------------------------------------

    def _create_global_learning_rate(self) -> None:
        program = default_main_program()
        if program in self._learning_rate_map:
            return
        if isinstance(self._learning_rate, Variable) and self._learning_rate.block:
            raise TypeError(
                f"the learning rate {self._learning_rate.name!r} was made in another program; "
                "make the schedule and the optimizer under the program_guard of the loss"
            )
        self._learning_rate_map[program] = layers.create_global_var(
            name=names.generate("learning_rate"),
            shape=[1],
            value=self._learning_rate if isinstance(self._learning_rate, float) else 0.0,
            dtype=VarType.FP32 if self._dtype is None else self._dtype,
            persistable=True,
        )

    def _global_learning_rate(self, program: Program | None = None) -> Variable | None:
        """The learning-rate variable in a program, None before `minimize`; in dygraph the rate."""
        if at_once():
            return self._rate_at_once()
        return self._learning_rate_map.get(program or default_main_program())

    def _create_param_lr(self, param_and_grad: tuple[Parameter, Variable]) -> Variable:
        """The learning rate of one parameter: the global one times the ParamAttr's."""
        param = param_and_grad[0]
        own = param.optimize_attr["learning_rate"]
        if isinstance(own, Variable):
            return own
        rate = self._global_learning_rate()
        assert rate is not None
        if own == 1.0:
            return rate
        program = default_main_program()
        with program.lr_schedule_guard(is_with_opt=True), name_scope("scale_with_param_lr"):
            scaled: Variable = rate * own
        return scaled

    # -- what an optimizer overrides ------------------------------------------

    def _create_accumulators(self, block: Block, parameters: Sequence[Parameter]) -> None:
        """Makes the values kept per parameter, by `_add_accumulator`."""

    def _append_optimize_op(
        self, block: Block, param_and_grad: tuple[Parameter, Variable]
    ) -> Operator:
        """Appends the operator that updates one parameter."""
        raise NotImplementedError

    def _finish_update(self, block: Block, parameters_and_grads: Sequence[ParamGrad]) -> None:
        """Appends what has to run after all updates."""
