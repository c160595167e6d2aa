"""What all optimizers of Paddle 2 share, in programs and where functions run at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from refluid.build import at_once
from refluid.core import names
from refluid.core.data_ends import one_update
from refluid.core.dtypes import VarType
from refluid.core.places import CPUPlace
from refluid.core.scope import global_scope
from refluid.eager import VarBase
from refluid.engine import listening
from refluid.fluid import layers
from refluid.fluid.clipping.gradients import GradientClipBase
from refluid.fluid.optimizer.kept import KeepingOptimizer
from refluid.ir.defaults import default_main_program
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable
from refluid.paddle.optimizer.groups import Groups, decay_of
from refluid.paddle.optimizer.lr import LRScheduler
from refluid.paddle.optimizer.masters import MasterWeights
from refluid.paddle.optimizer.scheduled import ScheduledRate

_SCHEDULE, _MASTERS = "LR_Scheduler", "master_weights"


class Optimizer(KeepingOptimizer):
    """Base of Paddle 2's optimizers: Fluid's, with Paddle 2's names for what they are given.

    learning_rate: a number, or a schedule of `paddle.optimizer.lr`, in programs too: each run of
    an executor takes the rate that the schedule has by then. parameters: what is trained, needed
    where functions run at once; or groups of them, dicts of `params` and arguments for these
    alone, of which `learning_rate` is a factor. weight_decay: a regularizer, or the coefficient of
    an L2 decay. grad_clip: one of `paddle.nn.ClipGradBy..`.
    """

    masters: MasterWeights | None = None  # float32 copies of half parameters
    _groups: Groups | None = None
    _decays: ClassVar[bool] = True  # the decay of a group is its parameters' regularizer

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
            self._groups = Groups(listed, self._decays)
            listed = self._groups.parameters
        return listed, decay_of(weight_decay)

    def _take_rate(self, learning_rate: Any) -> None:
        is_number = isinstance(learning_rate, float | int)
        self._learning_rate = float(learning_rate) if is_number else learning_rate
        if isinstance(learning_rate, Variable) and not at_once():
            self._learning_rate_map[default_main_program()] = learning_rate

    # -- groups of parameters ---------------------------------------------------

    def _group(self, param: Any) -> Mapping[str, Any]:
        """What the group of a parameter says."""
        return {} if self._groups is None else self._groups.of(param)

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        usual = super()._attributes(param)
        return usual if self._groups is None else self._groups.attributes(param, usual)

    def _clipped(self, pairs: list[Any]) -> list[Any]:
        if self._groups is None:
            return super()._clipped(pairs)
        found: list[Any] = []
        for group, several in self._groups.parted(pairs):
            clip = group.get("grad_clip", self._grad_clip)
            found += several if clip is None or not several else clip(several)
        return found

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

    def _overridden(self) -> bool:
        return False  # Its `backward` differentiates; `minimize` takes the gradients there are.

    def _step(self, parameter_list: Sequence[Any] | None) -> list[Any]:
        if self.masters is None:
            return super()._step(parameter_list)
        pairs = self.masters.stand_in(parameter_list or self._parameter_list or ())
        super()._step([master for _, master in pairs])
        self.masters.write_back(pairs)
        return [(one, one._grad_ivar()) for one, _ in pairs]

    def step(self) -> None:
        """One update by the gradients that the parameters have; where functions run at once."""
        with one_update(self.step):
            self._step(None)
        if listening.step_listener is not None:
            listening.step_listener(None)

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Forgets the gradients of all parameters that it updates."""
        self.clear_gradients()

    # -- state ------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What it keeps for the parameters by name, and where its schedule is."""
        kept = super().state_dict()
        if self.masters is not None and self.masters.state():
            kept[_MASTERS] = self.masters.state()
        if isinstance(self._learning_rate, LRScheduler):
            kept[_SCHEDULE] = self._learning_rate.state_dict()
        return kept

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` gave."""
        given = dict(state_dict)
        schedule, masters = given.pop(_SCHEDULE, None), given.pop(_MASTERS, {})
        if self.masters is not None:
            self.masters.load(masters)
        if schedule is not None and isinstance(self._learning_rate, LRScheduler):
            self._learning_rate.set_state_dict(schedule)
        if at_once():
            self._at_once.set_dict(given)
            return
        for name, value in given.items():
            cell = global_scope().find_var(name)
            if cell is not None and not isinstance(value, Variable | VarBase):
                cell.get_tensor().set(np.asarray(value), CPUPlace())
