"""Optimizers where operators run at once: one update after the other, and what they keep."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from refluid.core import events, flags
from refluid.core.errors import EnforceNotMet
from refluid.core.scope import Cell, Scope
from refluid.core.selected_rows import SelectedRows
from refluid.eager import ParamBase, Updates, VarBase, current
from refluid.eager.handed import handed
from refluid.eager.updates import Update
from refluid.eager.waiting import LaterPairs, waiting
from refluid.engine.group import Group
from refluid.engine.prepare import Wanted, prepared
from refluid.engine.strategy import DEFAULT
from refluid.ir.callstack import users_level
from refluid.ir.names import GRAD
from refluid.ir.program import Program
from refluid.runtime.plan import Plan


@dataclass
class _StepRate:
    """The learning rate of a step of an optimizer: the next one unless one is given."""

    updates: UpdatesAtOnce
    given: float | None

    def next(self) -> float:
        return self.updates.next_rate() if self.given is None else self.given

    def put(self, program: Program, rate: float) -> str:
        return self.updates.set_rate(program, rate)


class UpdatesAtOnce:
    """The updates of one optimizer.

    append: appends those of (parameter, gradient) pairs to the default program. rate: the learning
    rate of the next step. rate_in: the variable that has it in a program.
    """

    def __init__(
        self,
        append: Callable[[Any], Any],
        rate: Callable[[], float],
        rate_in: Callable[[Program], Any],
    ) -> None:
        self._rate, self._rate_in = rate, rate_in
        self._updates = Updates(append, self._runner)
        self._loaded: dict[str, torch.Tensor] = {}
        self._told = False
        self._transient: set[str] = set()
        self._rates: dict[Program, Cell] = {}
        self._put: dict[str, tuple[Any, float]] = {}  # by cell: its tensor, and the rate in it
        self.last_rate: float | None = None

    @property
    def scope(self) -> Scope:
        """What it keeps for parameters."""
        return self._updates.scope

    @property
    def latest(self) -> Update | None:
        """The program of the last update."""
        return self._updates.latest

    def step(self, parameters: Sequence[ParamBase], rate: float | None = None) -> LaterPairs:
        """Updates those that have a gradient. rate: the next one unless given.

        Returns the pairs of parameters and gradients.
        """
        known = self._updates.step(parameters, _StepRate(self, rate))
        done, handed.latest = handed.latest, None
        if done is not None:
            done(self, parameters)
        return self._pairs(parameters, known)

    def update_by(self, pairs: Sequence[tuple[ParamBase, VarBase | None]]) -> None:
        """One update by gradients that come with their parameters, whatever these have.

        EnforceNotMet where a gradient hasn't its parameter's shape.
        """
        waiting.happen()
        found = []
        for one, gradient in pairs:
            if gradient is None or not one.trainable:
                continue
            if not isinstance(gradient, VarBase):
                raise TypeError(
                    f"the gradient of parameter {one.name!r} should be a variable, not of "
                    f"{type(gradient).__name__}; fluid.dygraph.to_variable makes one of an array"
                )
            value = gradient._value
            rows = isinstance(value, SelectedRows)
            shape = [value.height(), *value.value.shape[1:]] if rows else list(value.shape)
            if shape != list(one.shape):
                raise EnforceNotMet(
                    f"parameter {one.name!r} has shape {list(one.shape)}, the gradient by which it "
                    f"is to be updated {shape}"
                )
            found.append((one, value))
        self._updates.update_by(found, _StepRate(self, None))

    def keep(self, one: ParamBase, add: Callable[[Any], Any]) -> VarBase:
        """Begins to keep a value of a parameter: what `add` makes of it in a program."""
        return self._kept(self._updates.keep(one, add).name)

    def kept(self, name: str) -> VarBase | None:
        """What is kept by that name."""
        return None if self.scope.find_var(name) is None else self._kept(name)

    def _kept(self, name: str) -> VarBase:
        value = self.scope.var(name).value
        return VarBase(value, name, stop_gradient=True, persistable=True)

    def wait(self, parameters: Sequence[ParamBase]) -> list[Any] | None:
        """Has an update wait with a step that does; (parameter, gradient) pairs, for later."""
        step = waiting.now
        found = None if step is None else step.update(self, parameters)
        if found is None:
            waiting.happen()
        return found

    @staticmethod
    def _pairs(parameters: Sequence[ParamBase], known: list[Any] | None) -> LaterPairs:
        """(parameter, gradient) pairs of the gradients of now. known: those."""
        found = [one.gradient_value for one in parameters] if known is None else known

        def made() -> list[Any]:
            both = zip(parameters, found, strict=True)
            return [(one, one.as_gradient(gradient)) for one, gradient in both]

        return LaterPairs(made)

    def next_rate(self) -> float:
        """The learning rate of a step that comes next."""
        self.last_rate = self._rate()
        return self.last_rate

    def set_rate(self, main: Program, rate: float) -> str:
        """Sets the learning rate of a program, and what was loaded before there was a place.

        Returns the name of the variable with the rate.
        """
        cell = self._rates.get(main)
        if cell is None:
            var = self._rate_in(main)
            self._transient.add(var.name)
            for one in main.global_block().vars:
                if one.endswith(GRAD):
                    self._transient |= {one, one.removesuffix(GRAD)}
            cell = self._rates[main] = self._updates.scope.var(var.name)
        if self._loaded:
            self._take_loaded()
        known, former = self._put.get(cell.name, (None, 0.0))
        if known is not cell.value or rate != former:
            cell.value.fill_(rate)
            self._put[cell.name] = cell.value, rate
        return cell.name

    def _take_loaded(self) -> None:
        """Sets what was loaded, where this step made the place for it.

        Warns, once, where none of it belongs to what is updated: Fluid refuses that.
        """
        made = set(self._updates.scope.local_var_names()) - self._transient
        ours = self._loaded.keys() & made
        if made and not ours and not self._told:
            self._told = True
            warnings.warn(
                f"set_dict was given {min(self._loaded)!r} and others, of which none belongs to "
                f"what this optimizer keeps ({min(made)!r}, ..): that begins anew. States go by "
                "the names of parameters: make the layers in the same order as when they were "
                "saved, or under fluid.unique_name.guard()",
                stacklevel=users_level(),
            )
        for name in ours:
            self._set(name, self._loaded.pop(name))

    def _runner(self, program: Program, scope: Scope) -> Callable[[], None]:
        """Runs a program on a scope, by a plan made anew where flags or the place are others,
        or a profile begins or ends."""
        made: Plan | None = None
        seen: Any = None

        def run() -> None:
            nonlocal made, seen
            now = current()
            assert now is not None
            conditions = flags.state(), now.place, events.active() is None
            if made is None or seen != conditions:
                group = Group([now.place])
                wanted = Wanted(program, (), (), DEFAULT, group)
                (made,) = prepared(wanted).plans(frozenset())
                made.stay_interpreted()
                seen = conditions
            made.run(scope, ())

        return run

    @staticmethod
    def rate_variable(rate: float) -> VarBase:
        """A learning rate as a variable."""
        return VarBase(torch.tensor([rate]), "learning_rate_0", stop_gradient=True)

    def state_dict(self) -> dict[str, VarBase]:
        """What is kept for the parameters, by name."""
        waiting.happen()
        scope, found = self._updates.scope, {}
        for name in scope.local_var_names():
            value = scope.var(name).value
            if name not in self._transient and isinstance(value, torch.Tensor):
                found[name] = self._kept(name)
        loaded = {
            name: VarBase(one, name, stop_gradient=True) for name, one in self._loaded.items()
        }
        return loaded | found

    def set_dict(self, state: Mapping[str, Any]) -> None:
        """Sets what is kept; what only the first step makes, when that is made.

        EnforceNotMet for another shape.
        """
        waiting.happen()
        scope, self._told = self._updates.scope, False
        for name, one in state.items():
            new = one.tensor if isinstance(one, VarBase) else torch.as_tensor(np.asarray(one))
            if scope.find_var(name) is None:
                self._loaded[name] = new.clone()
            else:
                self._set(name, new)

    def _set(self, name: str, new: torch.Tensor) -> None:
        cell = self._updates.scope.var(name)
        if cell.value.shape != new.shape:
            raise EnforceNotMet(
                f"optimizer state {name!r} has shape {list(cell.value.shape)}, what is to be set "
                f"{list(new.shape)}"
            )
        cell.value = new.to(cell.value.device, cell.value.dtype).clone()
