"""Optimizers on variables that have their values: a program of updates, run on their memory.

The updates of an optimizer are appended to a program once for each set of parameters that have a
gradient, by the same code as in a static program, clipping and decay included. Its scope holds
the parameters' own tensors, so that running it trains them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from refluid.build import Blocks, using
from refluid.core import flags, names
from refluid.core.dtypes import VarType
from refluid.core.scope import Cell, Scope
from refluid.core.selected_rows import SelectedRows
from refluid.eager.parameter import ParamBase
from refluid.eager.steady import SteadyUpdate
from refluid.ir.block import Block
from refluid.ir.defaults import program_guard
from refluid.ir.names import GRAD
from refluid.ir.program import Program
from refluid.ir.variable import Parameter
from refluid.passes.fold_weight_decay import Decays, fold_weight_decay

Append = Callable[[list[Any]], Any]
Runner = Callable[[Program, Scope], Callable[[], None]]


class StepRates(Protocol):
    """The learning rate of one step."""

    def next(self) -> float:
        """What it is; called once for a step that updates something."""

    def put(self, program: Program, rate: float) -> str:
        """Puts it into a program's variable, whose name is returned."""


@dataclass
class Update:
    """A program that updates some parameters from their gradients, both persistable in it."""

    main: Program
    run: Callable[[], None]
    parameters: list[Cell]
    gradients: list[Cell]
    # The parameters' values when they were put into the cells, and what was put there.
    seen: list[Any]
    held: list[Any]
    # All parameters of the step that made it, and the places of those that are updated; else -1.
    places: list[tuple[ParamBase, int]]
    rate: str = ""  # the variable with the learning rate
    steady: SteadyUpdate | None = None

    def has(self, n: int, value: Any) -> bool:
        """Whether what a cell holds is the value of its parameter, and in its memory."""
        if value is not self.seen[n]:
            return False
        same: bool = value.data_ptr() == self.held[n].data_ptr()
        return same

    def gradients_again(self, parameters: Sequence[ParamBase]) -> list[Any] | None:
        """The gradients, where the same parameters have dense ones as at the last step."""
        if len(parameters) != len(self.places):
            return None
        found: list[Any] = [None] * len(self.seen)
        for one, (known, n) in zip(parameters, self.places, strict=True):
            value = one._value
            if one is not known or one.rows is not None:
                return None
            if n >= 0:
                grad = found[n] = value.grad
                if grad is None or grad.requires_grad or not self.has(n, value):
                    return None
            elif value is None or value.grad is not None:
                return None
        return found


class Updates:
    """The programs of one optimizer, and the scope with its state.

    append: appends the updates of (parameter, gradient) pairs to the default program. runner: makes
    a function that runs a program on a scope.
    """

    def __init__(self, append: Append, runner: Runner) -> None:
        self.scope = Scope()
        self._append, self._runner = append, runner
        self._known: dict[Any, Update] = {}
        self.latest: Update | None = None

    def step(self, parameters: Sequence[ParamBase], rates: StepRates) -> list[Any] | None:
        """One update of those that have a gradient.

        Returns the gradients of all parameters where they are those of the latest update again.
        """
        update, again = self.latest, None
        if update is not None and flags.value("refluid_eager_known_updates"):
            again = update.gradients_again(parameters)
        if update is None or again is None:
            found = [(one, one.gradient_value) for one in parameters if one.trainable]
            update = self.latest = self._filled(found, rates)
            if update is not None:
                updated = [id(one) for one, grad in found if grad is not None]
                number = {one: n for n, one in enumerate(updated)}
                update.places = [(one, number.get(id(one), -1)) for one in parameters]
                self._run(update)
            return None
        if self._steadily(update, again, rates):
            return [None if n < 0 else again[n] for _, n in update.places]
        update.rate = rates.put(update.main, rates.next())
        for cell, grad in zip(update.gradients, again, strict=True):
            cell.value = grad
        self._run(update)
        return None

    def update_by(self, pairs: Sequence[tuple[ParamBase, Any]], rates: StepRates) -> None:
        """One update of parameters by gradients that come with them, whatever theirs are."""
        update = self._filled(pairs, rates)
        if update is not None:
            self._run(update)

    @staticmethod
    def _run(update: Update) -> None:
        update.run()
        held, seen = update.held, update.seen
        for n, cell in enumerate(update.parameters):
            if cell.value is not held[n]:
                seen[n].data = cell.value
                seen[n] = None
        for cell in update.gradients:
            cell.value = None

    def _steadily(self, update: Update, gradients: list[Any], rates: StepRates) -> bool:
        """The latest update without its program; whether that was possible."""
        steady = update.steady
        if steady is None or not steady.stays():
            names = [cell.name for cell in update.gradients]
            ops = update.main.global_block().ops
            steady = update.steady = SteadyUpdate(ops, self.scope, names, update.rate)
        if not steady.can():
            return False
        steady.run(gradients, rates.next())
        return True

    def _filled(self, found: Sequence[tuple[ParamBase, Any]], rates: StepRates) -> Update | None:
        """The update of those that have a gradient, with values and gradients in its cells."""
        pairs = [(one, grad) for one, grad in found if grad is not None]
        if not pairs:
            return None
        key = tuple((one.name, type(grad)) for one, grad in pairs)
        update = self._known.get(key)
        if update is None:
            update = self._known[key] = self._make(pairs)
        update.rate = rates.put(update.main, rates.next())
        seen, held = update.seen, update.held
        for n, (one, grad) in enumerate(pairs):
            value = one.tensor
            if not update.has(n, value):
                seen[n], held[n] = value, value.detach()
            update.parameters[n].value = held[n]
            if isinstance(grad, torch.Tensor) and grad.requires_grad:
                grad = grad.detach()
            update.gradients[n].value = grad
        return update

    def keep(self, one: ParamBase, add: Callable[[Any], Any]) -> Cell:
        """Begins to keep a value of a parameter: what `add` makes of it in a program."""
        main, startup = Program(), Program()
        with using(Blocks()), program_guard(main, startup), names.guard():
            kept = add(_as_static(main.global_block(), one))
        self._runner(startup, self.scope)()
        return self.scope.var(kept.name)

    def _make(self, pairs: Sequence[tuple[ParamBase, Any]]) -> Update:
        main, startup = Program(), Program()
        # With names of its own, what is kept for a parameter has the same name in all programs.
        with using(Blocks()), program_guard(main, startup), names.guard():
            block = main.global_block()
            appended = []
            for one, grad in pairs:
                rows = isinstance(grad, SelectedRows)
                static = _as_static(block, one)
                gradient = block.create_var(
                    name=one.name + GRAD,
                    shape=one.shape,
                    dtype=one.dtype,
                    type=VarType.SELECTED_ROWS if rows else VarType.LOD_TENSOR,
                    persistable=True,
                )
                appended.append((static, gradient))
            self._append(appended)
        given = frozenset(gradient.name for _, gradient in appended)
        fold_weight_decay(main, Decays(given=given))
        parameters = [self.scope.var(one.name) for one, _ in pairs]
        gradients = [self.scope.var(one.name + GRAD) for one, _ in pairs]
        kept = {name: self.scope.var(name).value for name in self.scope.local_var_names()}
        self._runner(startup, self.scope)()
        for name, value in kept.items():
            if value is not None:
                self.scope.var(name).value = value
        run, count = self._runner(main, self.scope), len(pairs)
        return Update(main, run, parameters, gradients, [None] * count, [None] * count, [])


def _as_static(block: Block, one: ParamBase) -> Parameter:
    """The parameter in a program of updates."""
    static: Parameter = block.create_parameter(
        name=one.name,
        shape=one.shape,
        dtype=one.dtype,
        optimize_attr=one.optimize_attr,
        regularizer=one.regularizer,
        gradient_clip_attr=one.gradient_clip_attr,
        need_clip=one.need_clip,
        split_in=one.split_in,
    )
    static.counted_elsewhere = one.counted_elsewhere
    return static
