"""What all optimizers of Paddle 2 share, in programs and where functions run at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from refluid.build import at_once
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.core.places import CPUPlace
from refluid.core.scope import global_scope
from refluid.eager import VarBase
from refluid.fluid import layers
from refluid.fluid.clipping.gradients import GradientClipBase
from refluid.fluid.optimizer.base import Optimizer as FluidOptimizer
from refluid.fluid.regularizer import WeightDecayRegularizer
from refluid.ir.defaults import default_main_program
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.paddle.optimizer.lr import LRScheduler
from refluid.paddle.optimizer.scheduled import ScheduledRate
from refluid.paddle.regularizer import L2Decay

_SCHEDULE = "LR_Scheduler"


def decay_of(weight_decay: Any) -> WeightDecayRegularizer | None:
    """The regularizer that `weight_decay` asks for: a number is that of an L2 decay."""
    if weight_decay is None or isinstance(weight_decay, WeightDecayRegularizer):
        return weight_decay
    if isinstance(weight_decay, bool) or not isinstance(weight_decay, float | int):
        raise TypeError(
            f"weight_decay should be float, L1Decay or L2Decay, not {type(weight_decay).__name__}"
        )
    return L2Decay(float(weight_decay))


class Optimizer(FluidOptimizer):
    """Base of Paddle 2's optimizers: Fluid's, with Paddle 2's names for what they are given.

    learning_rate: a number, or a schedule of `paddle.optimizer.lr`, in programs too: each run of
    an executor takes the rate that the schedule has by then. parameters: what is trained, needed
    where functions run at once. weight_decay: a regularizer, or the coefficient of an L2 decay.
    grad_clip: one of `paddle.nn.ClipGradBy..`.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            0.0, *self._given(learning_rate, parameters, weight_decay), grad_clip, name
        )
        self._take_rate(learning_rate)

    # -- what subclasses of Fluid's optimizers do -------------------------------

    def _given(self, learning_rate: Any, parameters: Any, weight_decay: Any) -> tuple[Any, Any]:
        """Parameters and regularizer as Fluid's optimizers take them."""
        if not isinstance(learning_rate, float | int | LRScheduler | Variable):
            raise TypeError(
                "learning rate should be float or LRScheduler, got "
                f"{type(learning_rate).__name__} here"
            )
        if isinstance(parameters, Variable):
            raise TypeError(
                "`parameters` argument given to the optimizer should be an iterable of "
                f"parameters, but received {type(parameters).__name__}"
            )
        listed = None if parameters is None else list(parameters)
        if listed and isinstance(listed[0], dict):
            raise NotImplementedError(
                "refluid's optimizers take no groups of parameters: give each ParamAttr its own "
                "learning_rate and regularizer"
            )
        return listed, decay_of(weight_decay)

    def _take_rate(self, learning_rate: Any) -> None:
        is_number = isinstance(learning_rate, float | int)
        self._learning_rate = float(learning_rate) if is_number else learning_rate
        if isinstance(learning_rate, Variable) and not at_once():
            self._learning_rate_map[default_main_program()] = learning_rate

    # -- learning rate ----------------------------------------------------------

    def _create_global_learning_rate(self) -> None:
        schedule, program = self._learning_rate, default_main_program()
        if not isinstance(schedule, LRScheduler):
            super()._create_global_learning_rate()
            return
        if program in self._learning_rate_map:
            return
        made = layers.create_global_var(
            name=names.generate("learning_rate"),
            shape=[1],
            value=float(schedule()),
            dtype=VarType.FP32 if self._dtype is None else self._dtype,
            persistable=True,
        )
        self._learning_rate_map[program] = made
        if not at_once():
            program.set_before_runs(made.name, ScheduledRate(made.name, schedule))

    def _next_rate(self) -> float:
        given: Any = self._learning_rate
        return float(given() if isinstance(given, LRScheduler) else given)

    def get_lr(self) -> float:
        """The learning rate of the step that comes next."""
        return self._next_rate()

    def set_lr(self, value: float) -> None:
        """Sets the learning rate; RuntimeError for an optimizer that has a schedule.

        In a program it holds from the next run on, in the global scope.
        """
        if not isinstance(value, float | int):
            raise TypeError(
                f"The type of 'value' in optimizer.set_lr must be float, but received {type(value)}"
            )
        if isinstance(self._learning_rate, LRScheduler):
            raise RuntimeError(
                "optimizer's learning rate can't be LRScheduler when invoke this API, because "
                "this will lead to conflict."
            )
        self._learning_rate = float(value)
        for variable in self._learning_rate_map.values():
            cell = global_scope().find_var(variable.name)
            if cell is not None and cell.value is not None:
                cell.value.fill_(float(value))

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Has the learning rate follow a schedule, of a program that is minimised afterwards."""
        if not isinstance(scheduler, LRScheduler):
            raise TypeError(
                "The type of 'scheduler' in optimizer.set_lr_schduler must be LRScheduler, but "
                f"received {type(scheduler)}"
            )
        self._learning_rate = scheduler

    # -- steps ------------------------------------------------------------------

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
    ) -> tuple[list[Any], list[Any]]:
        """Appends gradients and updates of a program's loss; at once, one step by gradients."""
        return super().minimize(loss, startup_program, parameters, no_grad_set)

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> list[Any]:
        """First part of `minimize`: (parameter, gradient) pairs. At once it runs backward."""
        if at_once():
            loss.backward()
            chosen = parameters or self._parameter_list or ()
            return [(one, one._grad_ivar()) for one in chosen if one.trainable]
        return super().backward(loss, startup_program, parameters, no_grad_set, callbacks)

    def step(self) -> None:
        """One update by the gradients that the parameters have; where functions run at once."""
        self._step(None)

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Forgets the gradients of all parameters that it updates."""
        self.clear_gradients()

    # -- state ------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What it keeps for the parameters by name, and where its schedule is."""
        kept = super().state_dict()
        if isinstance(self._learning_rate, LRScheduler):
            kept[_SCHEDULE] = self._learning_rate.state_dict()
        return kept

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` gave."""
        given = dict(state_dict)
        schedule = given.pop(_SCHEDULE, None)
        if schedule is not None and isinstance(self._learning_rate, LRScheduler):
            self._learning_rate.set_state_dict(schedule)
        if at_once():
            self._at_once.set_dict(given)
            return
        for name, value in given.items():
            cell = global_scope().find_var(name)
            if cell is not None and not isinstance(value, Variable | VarBase):
                cell.get_tensor().set(np.asarray(value), CPUPlace())
