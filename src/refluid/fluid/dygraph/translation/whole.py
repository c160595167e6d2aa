"""A declarative function's call, `backward`, `minimize` and `clear_gradients` as one run.

Where a result got `backward` and an optimizer updated just the parameters that it was computed of,
twice in a row, the next calls wait (`eager.waiting`). If the step comes to its end, one program is
run: forward, gradients and the optimizer's own updates. Else all happens as it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from refluid.build import backend, using
from refluid.comm.world import world
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.scope import Cell, Scope
from refluid.eager import VarBase, current
from refluid.eager.holding import replace_value
from refluid.eager.waiting import LaterPairs, waiting
from refluid.engine.prepare import Wanted, prepared
from refluid.fluid.dygraph.translation.whole_program import whole_program
from refluid.kernels.gradient_hooks import has_hooks

# After so many steps alike the next one waits; after so many in a row that didn't come to their
# end none does any more.
_ALIKE, _IN_VAIN = 2, 3


@dataclass(frozen=True)
class Former:
    """A step that was done: which result got `backward`, who updated which parameters then."""

    number: int
    updates: Any
    parameters: tuple[VarBase, ...]

    def is_like(self, other: Former | None) -> bool:
        """Whether another one did the same."""
        if other is None or self.number != other.number:
            return False
        return self.was_of(other.updates, other.parameters)

    def was_of(self, updates: Any, parameters: Sequence[VarBase]) -> bool:
        """Whether that optimizer updated those parameters."""
        own = self.parameters
        same = self.updates is updates and len(own) == len(parameters)
        return same and all(map(is_, own, parameters))


class WholeSteps:
    """The steps of one program of a function. runner: what runs it."""

    def __init__(self, runner: Any) -> None:
        self.runner = runner
        self._former: Former | None = None
        self._alike = self._vain = 0
        self.step: WholeProgram | None = None

    def note(self, number: int, updates: Any, parameters: Sequence[VarBase]) -> None:
        """A step was done part by part."""
        if not flags.value("refluid_declarative_whole"):
            return
        now = Former(number, updates, tuple(parameters))
        self._alike = self._alike + 1 if now.is_like(self._former) else 0
        self._former = now
        if self._alike == 0:
            self.step = None
        elif self._alike == _ALIKE and self._vain < _IN_VAIN:
            self.step = WholeProgram.of(self.runner, now)

    def wait(self, tensors: Sequence[Tensor]) -> list[VarBase] | None:
        """The results of a call that waits; None where it is to be done now."""
        step, now = self.step, current()
        if step is None or now is None or not flags.value("refluid_declarative_whole"):
            return None
        if now.ran is not None or now.casting is not None or not torch.is_grad_enabled():
            return None
        if any(one.requires_grad for one in tensors) or not step.is_ready():
            return None
        results = [VarBase() for _ in self.runner.fetches]
        call = WaitingCall(self, step, step.copies(tensors), results)
        waiting.begin(call, [*self.runner.held.values(), *results])
        return results

    def ended(self, *, whole: bool) -> None:
        """A step that waited was run as a whole, or wasn't."""
        self._vain = 0 if whole else self._vain + 1
        if self._vain >= _IN_VAIN:
            self.step = None


@dataclass
class WholeProgram:
    """The program of whole steps as it is run. cells: those of what the function takes."""

    runner: Any
    former: Former
    wanted: Wanted
    main: Any
    scope: Scope
    cells: list[tuple[Cell, VarBase]]
    takes: list[VarBase]
    others: list[VarBase]
    updated: set[int]
    _fed: list[Tensor] = field(default_factory=list)
    _fed_memory: set[int] = field(default_factory=set)

    @staticmethod
    def of(runner: Any, former: Former) -> WholeProgram | None:
        """The program for steps like a former one; None where there can't be one."""
        update = former.updates.latest
        if update is None or world().size > 1 or not runner.plain_step:
            return None
        if not runner.held.keys().isdisjoint(runner.fetches):
            return None  # fetched is what they are before the update
        taken = {name: bool(var._value.requires_grad) for name, var in runner.held.items()}
        known = {id(var): name for name, var in runner.held.items()}
        pairs = [(one, place) for one, place in update.places if place >= 0]
        if any(id(one) not in known for one, _ in pairs):
            return None
        names = {update.parameters[place].name: known[id(one)] for one, place in pairs}
        try:
            made = whole_program(
                runner.program, runner.fetches[former.number], taken, update.main, names
            )
        except EnforceNotMet:
            return None
        if made is None:
            return None
        scope = Scope(former.updates.scope)
        wanted = Wanted(made, runner.feeds, runner.fetches, runner.strategy, runner.group)
        own = {*runner.held, *scope.local_var_names()}
        state = [one.name for one in made.global_block().vars.values() if one.persistable]
        if any(name not in own and scope.find_var(name) is None for name in state):
            return None
        cells = [(scope.var(name), var) for name, var in runner.held.items()]
        takes = [var for name, var in runner.held.items() if taken[name]]
        others = [var for name, var in runner.held.items() if not taken[name]]
        updated = {id(one) for one, _ in pairs}
        return WholeProgram(
            runner, former, wanted, update.main, scope, cells, takes, others, updated
        )

    def is_ready(self) -> bool:
        """Whether what takes gradients is what it was, has none yet, and no hook is to see one."""
        for var in self.takes:
            value = var._value
            if not value.requires_grad or value.grad is not None or var.rows is not None:
                return False
            if has_hooks(value):
                return False
        return not any(var._value is None or var._value.requires_grad for var in self.others)

    def copies(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """What is fed, in memory of its own: a tensor may share that of an array of the user's."""
        if not self._fed:
            self._fed = [torch.empty_like(one) for one in tensors]
            self._fed_memory = {*map(_memory, self._fed)}
        return [kept.copy_(one) for kept, one in zip(self._fed, tensors, strict=True)]

    def forget_copies(self) -> None:
        """Has the next step use other memory."""
        self._fed = []

    def run(self, tensors: Sequence[Tensor], rate: float) -> list[Any]:
        """Forward, gradients and updates; the results."""
        for cell, var in self.cells:
            if cell.value is not var._value:
                cell.value = var._value
        self.former.updates.set_rate(self.main, rate)
        found = prepared(self.wanted).step(frozenset()).run(self.scope, tensors, ())
        for cell, var in self.cells:
            if cell.value is not var._value:
                replace_value(var, cell.value)
        fed = self._fed_memory
        return [one.value.clone() if _memory(one.value) in fed else one.value for one in found]


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class WaitingCall:
    """A call that waits, and what was asked for after it. tensors: what is fed."""

    def __init__(
        self,
        steps: WholeSteps,
        program: WholeProgram,
        tensors: Sequence[Tensor],
        results: list[VarBase],
    ) -> None:
        self._steps, self._program, self._tensors = steps, program, tensors
        self._results, self._backend = results, backend()
        self._asked: list[Callable[[], Any]] = []
        self._rate: float | None = None
        self._pairs: ref[LaterPairs] | None = None
        self._cleared: set[int] = set()

    def backward(self, result: VarBase) -> bool:
        """Waits if it is asked first, of the same result as before."""
        if self._asked or result is not self._results[self._program.former.number]:
            return False
        self._asked.append(result.backward)
        return True

    def update(self, updates: Any, parameters: Sequence[VarBase]) -> list[Any] | None:
        """Waits if it is asked next, by the same optimizer of the same parameters."""
        if len(self._asked) != 1 or not self._program.former.was_of(updates, parameters):
            return None
        rate = updates.next_rate()
        if waiting.now is not self:  # a user's schedule ran operators: all has happened
            done: list[Any] = updates.step(parameters, rate)
            return done
        self._rate, pairs = rate, LaterPairs()
        waits = self._pairs = ref(pairs)

        def do() -> None:
            updates.step(parameters, rate)
            kept = waits()
            if kept is not None:
                kept.fill((one, one._grad_ivar()) for one in parameters)

        self._asked.append(do)
        return pairs

    def clear(self, parameter: VarBase) -> bool:
        """Waits if all else was asked for; with the last parameter's the step is run."""
        if self._rate is None or id(parameter) not in self._program.updated:
            return False
        cleared = self._cleared
        self._asked.append(parameter.clear_gradient)
        cleared.add(id(parameter))
        if len(cleared) == len(self._program.updated):  # it has no others
            self.run_whole()
        return True

    def happen(self) -> None:
        """Does what was asked for, part by part."""
        waiting.end()
        self._steps.ended(whole=False)
        self._program.forget_copies()  # what was fed may be needed for as long as gradients are
        with using(self._backend), torch.enable_grad():
            made = self._steps.runner.run_now(self._tensors, [[]] * len(self._tensors))
            for one, result in zip(self._results, made, strict=True):
                one.__dict__.update(result.__dict__)
                one.held = result._value
            for ask in self._asked:
                ask()

    def run_whole(self) -> None:
        """Does all of it at once; part by part where somebody kept the pairs with gradients."""
        if self._pairs is not None and self._pairs() is not None:  # somebody may look at gradients
            self.happen()
            return
        waiting.end()
        assert self._rate is not None
        values = self._program.run(self._tensors, self._rate)
        self._steps.ended(whole=True)
        reached = self._steps.runner.reached
        for number, (one, value) in enumerate(zip(self._results, values, strict=True)):
            if reached[number]:
                one._value = apart = value.detach().requires_grad_()
                one.known_source = apart, _gone
            else:
                one._stops, one._value = True, value


def _gone(_slope: Tensor) -> None:
    raise EnforceNotMet(
        "backward went through a declarative function's result a second time, and what it needs "
        "is gone by then; call the function again"
    )
