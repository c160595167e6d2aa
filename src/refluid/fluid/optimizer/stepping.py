"""Optimizers where operators run at once: by the gradients that parameters have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from refluid.build import at_once
from refluid.fluid.clipping.gradients import GradientClipBase
from refluid.fluid.optimizer.accumulators import Accumulators
from refluid.ir.at_once import only_at_once
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.kernels.settings import without_gradients

_OPTIONS = ("dtype", "fill_value", "shape", "type", "device")  # of `_add_accumulator`


def is_schedule(rate: Any) -> bool:
    """Whether it is a schedule of `fluid.dygraph`, which is called for the rate of each step."""
    return callable(rate) and hasattr(rate, "step_num")


def _called(schedule: Any) -> Any:
    """What a schedule gives when it is called: as a number, unless a user's class says how."""
    own = type(schedule).__call__.__module__.startswith("refluid.")
    return schedule._refluid_next() if own else schedule()


def _at_once_only(name: str) -> None:
    if not at_once():
        only_at_once(name)


def goes_around(outer: str, inner: Any, needs: str) -> None:
    """TypeError where `outer` can't be made of `inner`, as it asks for what that hasn't."""
    if hasattr(inner, needs):
        return
    kind = type(inner).__name__
    if not hasattr(inner, "minimize"):
        raise TypeError(f"{outer} takes an optimizer, not {kind}")
    raise TypeError(
        f"{outer} goes inside {kind}, not around it: make it of the plain optimizer, and give it "
        f"to {kind}"
    )


def only_in_programs(name: str) -> None:
    """Refuses what Fluid has for programs alone, where operators run at once."""
    if at_once():
        raise NotImplementedError(
            f"In dygraph, don't support {name}: it rewrites programs, in Fluid too. Build the "
            "network as a program, or call fluid.disable_dygraph() before"
        )


class Stepping(Accumulators):
    """What optimizers do where operators run at once."""

    _parameter_list: Sequence[Any] | None
    _grad_clip: Any
    _learning_rate: Any
    _learning_rate_map: dict[Program, Variable]

    def __init__(self, name: str | None) -> None:
        super().__init__(name)
        # Options of accumulators that were asked for where operators run at once, by kind and
        # parameter: programs of updates are made later.
        self._asked: dict[tuple[str, str], dict[str, Any]] = {}

    def _add_accumulator(self, name: str, param: Any, *given: Any, **options: Any) -> Variable:
        """Makes an accumulator; see `Accumulators`."""
        add = super()._add_accumulator
        if not at_once():
            return add(name, param, *given, **options)
        named = dict(zip(_OPTIONS, given, strict=False)) | options
        self._asked[name, param.name] = named
        kept: Variable = self._at_once.keep(param, lambda static: add(name, static, **named))
        return kept

    def _get_accumulator(self, name: str, param: Any) -> Variable:
        """An accumulator; see `Accumulators`."""
        asked = self._asked.get((name, param.name))
        if at_once():
            kept: Variable | None = self._at_once.kept(f"{param.name}_{self._kind(name)}_0")
            return super()._get_accumulator(name, param) if kept is None else kept
        known = self._accumulators.get(self._kind(name), {}).get(param.name)
        if asked is not None and (known is None or known.block.program is not param.block.program):
            return self._add_accumulator(name, param, **asked)
        return super()._get_accumulator(name, param)

    def _set_former_clip(self, clip: Any) -> None:
        if clip is not None and at_once():
            self._grad_clip = clip

    grad_clip = property(fset=_set_former_clip, doc="The clip that `minimize` of 1.6 was given.")

    def apply_gradients(self, params_grads: Sequence[Any]) -> Any:
        """Appends the updates of (parameter, gradient) pairs."""
        raise NotImplementedError

    def backward(self, loss: Any, *given: Any, **options: Any) -> list[Any]:
        """The (parameter, gradient) pairs."""
        raise NotImplementedError

    def apply_optimize(self, loss: Any, startup_program: Any, params_grads: Sequence[Any]) -> Any:
        """As `apply_gradients`."""
        raise NotImplementedError

    def _overridden(self) -> bool:
        """Whether a user's class has a step of `minimize` of its own."""
        steps = (type(self).backward, type(self).apply_optimize)
        return not all(one.__module__.startswith("refluid.") for one in steps)

    def _clips_values(self) -> bool:
        """Whether a user's clip says how gradients are clipped where operators run at once."""
        clip = self._grad_clip
        return clip is not None and type(clip)._dygraph_clip is not GradientClipBase._dygraph_clip

    def _clipped_values(self, params_grads: Sequence[Any]) -> Sequence[Any]:
        """The pairs, clipped where a user's clip does that on their values."""
        if self._grad_clip is None or not self._clips_values():
            return params_grads
        clipped: Sequence[Any] = without_gradients(self._grad_clip, params_grads)
        return clipped

    def _append_once(self, params_grads: list[Any]) -> Any:
        """`apply_gradients` to the program of updates, which clips unless `_clipped_values` did."""
        clip = self._grad_clip
        if self._clips_values():
            self._grad_clip = list  # the pairs as they are
        try:
            return self.apply_gradients(params_grads)
        finally:
            self._grad_clip = clip

    def _own_steps(self, loss: Any, parameter_list: Sequence[Any] | None) -> list[Any]:
        """The steps of `minimize` one by one, for a class that overrides some."""
        pairs = without_gradients(self.backward, loss, None, parameter_list)
        without_gradients(self.apply_optimize, loss, None, pairs)
        return pairs

    def _pairs_at_once(self, parameter_list: Sequence[Any] | None) -> list[Any]:
        """(parameter, gradient) of those that are trained and have one."""
        pairs = [(one, one._grad_ivar()) for one in self._chosen(parameter_list)]
        return [pair for pair in pairs if pair[1] is not None]

    def _update_by(self, params_grads: Sequence[Any]) -> None:
        """One update by gradients that come with their parameters."""
        self._at_once.update_by(params_grads)

    def _step(self, parameter_list: Sequence[Any] | None) -> list[Any]:
        """One update by the gradients that the parameters have."""
        if self._clips_values():
            found = self._pairs_at_once(parameter_list)
            self._update_by(self._clipped_values(found))
            return found
        chosen = self._chosen(parameter_list)
        updates = self._at_once
        pairs: list[Any] | None = updates.wait(chosen)
        return updates.step(chosen) if pairs is None else pairs

    def _chosen(self, parameter_list: Sequence[Any] | None) -> list[Any]:
        parameters = parameter_list or self._parameter_list
        if parameters is None:
            from refluid.core.all_parameters import with_gradients  # most are given some

            parameters = with_gradients()
        if parameters is None:
            raise AttributeError(
                "parameter_list argument given to the Optimizer should not be None in dygraph mode."
            )
        try:
            return [one for one in parameters if one.trainable]
        except AttributeError:
            others = [one for one in parameters if not hasattr(one, "trainable")]
            raise TypeError(
                "'parameter_list' should be a list of parameters, "
                f"not of {type(others[0]).__name__}"
            ) from None

    @cached_property
    def _at_once(self) -> Any:
        from refluid.fluid.optimizer.at_once import UpdatesAtOnce  # most programs are static

        return UpdatesAtOnce(self._append_once, self._next_rate, self._rate_in)

    def _next_rate(self) -> float:
        given: Any = self._learning_rate
        return float(_called(given) if is_schedule(given) else given)

    def _rate_in(self, program: Program) -> Variable:
        return self._learning_rate_map[program]

    def _rate_at_once(self) -> Variable:
        """The learning rate as a variable."""
        made: Variable = self._at_once.rate_variable(self.current_step_lr())
        return made

    def clear_gradients(self) -> None:
        """Forgets the gradients of all parameters that it updates, in dygraph only."""
        _at_once_only("Optimizer.clear_gradients")
        for one in self._parameter_list or ():
            one.clear_gradient()

    def current_step_lr(self) -> float:
        """The learning rate of the step that comes next, in dygraph only."""
        _at_once_only("Optimizer.current_step_lr")
        given: Any = self._learning_rate
        if is_schedule(given):
            return float(
                given.step() if self._at_once.last_rate is None else self._at_once.last_rate
            )
        return float(given)

    def state_dict(self) -> dict[str, Any]:
        """What it keeps for the parameters by name, and how far its schedule is."""
        if not at_once():
            return super().state_dict()
        kept: dict[str, Any] = self._at_once.state_dict()
        return kept | self._schedule_state()

    def _schedule_state(self) -> dict[str, Any]:
        if not is_schedule(self._learning_rate):
            return {}
        kept = self._learning_rate.state_dict()
        found: dict[str, Any] = {} if list(kept) == ["step_num"] else {"LR_Scheduler": kept}
        if "step_num" in kept:
            found["global_step"] = np.array([kept["step_num"]], dtype="int64")
        return found

    def set_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` gave, here or in another process; in dygraph only."""
        _at_once_only("Optimizer.set_dict")
        given = dict(state_dict)
        steps, schedule = given.pop("global_step", None), given.pop("LR_Scheduler", None)
        if is_schedule(self._learning_rate):
            if schedule is not None:
                self._learning_rate.set_dict(schedule)
            elif steps is not None:
                self._learning_rate.set_dict({"step_num": int(np.asarray(steps).item())})
        self._at_once.set_dict(given)

    def load(self, stat_dict: Mapping[str, Any]) -> None:
        """Fluid 1.5's name of `set_dict`."""
        self.set_dict(stat_dict)
