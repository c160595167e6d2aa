"""Programs of translated functions, run on variables of dygraph within torch's autograd.

A program that takes gradients is one plan: it pauses where the results are handed out, and goes
on with its gradient operators when autograd brings the results' gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import as_levels, as_lod
from refluid.core.scope import Scope
from refluid.eager import VarBase
from refluid.eager.handed import handed
from refluid.eager.holding import replace_value
from refluid.eager.waiting import waiting
from refluid.engine.group import Group
from refluid.engine.prepare import Wanted, prepared
from refluid.engine.strategy import Strategy
from refluid.fluid.dygraph.translation.stepping import Begun, refusing, step
from refluid.fluid.dygraph.translation.variants import Variant, vary
from refluid.fluid.dygraph.translation.whole import WholeSteps
from refluid.ir.program import Program
from refluid.kernels.settings import without_gradients

_STRATEGY = Strategy()


class ProgramRunner:
    """A program with the variables of dygraph that it takes. feeds, fetches: names."""

    def __init__(
        self,
        program: Program,
        feeds: Sequence[str],
        fetches: Sequence[str],
        held: Mapping[str, VarBase],
        place: Any,
    ) -> None:
        self.program, self.held = program, dict(held)
        self.feeds, self.fetches = tuple(feeds), tuple(fetches)
        self.scope, self.group = Scope(), Group([place])
        self.place, self.device = place, place.device
        self._cells = [(self.scope.var(name), var) for name, var in self.held.items()]
        self.strategy, self.whole = _STRATEGY, WholeSteps(self)
        # Of the step with gradients: which results depend on what takes one; no sequences in it.
        self.reached: tuple[bool, ...] = ()
        self.plain_step = False
        self._variants: dict[Any, tuple[Variant, Wanted] | EnforceNotMet] = {}
        self._plain = self._wanted(program, self.fetches)

    def _wanted(self, program: Program, fetches: tuple[str, ...]) -> Wanted:
        return Wanted(program, self.feeds, fetches, _STRATEGY, self.group)

    def run(self, tensors: Sequence[Tensor], lods: Sequence[Any]) -> list[VarBase]:
        """The results for these feeds, with gradients where torch records them.

        The call may wait until a whole step of training is asked for.
        """
        waiting.happen()
        if not any(lods):
            found = self.whole.wait(tensors)
            if found is not None:
                return found
        return self.run_now(tensors, lods)

    def run_now(self, tensors: Sequence[Tensor], lods: Sequence[Any]) -> list[VarBase]:
        """As `run`, at once."""
        for cell, var in self._cells:
            value = var._value
            if cell.value is not value:
                cell.value = value
        fed = frozenset(name for name, lod in zip(self.feeds, lods, strict=True) if lod)
        levels = [as_levels(lod) for lod in lods]
        if torch.is_grad_enabled():
            feeds = tuple([n for n, one in enumerate(tensors) if one.requires_grad])
            held = tuple([name for name, var in self.held.items() if var._value.requires_grad])
            if feeds or held:
                return self._with_gradients(tensors, levels, fed, feeds, held)
        detached = [one.detach() if one.requires_grad else one for one in tensors]
        plan = prepared(self._plain).step(fed)
        found = plan.run(self.scope, detached, levels)
        self._take_back()
        return [result(one.value, one.lod, stops=True) for one in found]

    def _with_gradients(
        self,
        tensors: Sequence[Tensor],
        levels: Sequence[Any],
        fed: frozenset[str],
        feeds: tuple[int, ...],
        held: tuple[str, ...],
    ) -> list[VarBase]:
        known = self._variants.get((feeds, held))
        if known is None:
            known = self._variants[feeds, held] = self._vary_or_not(feeds, held)
        if isinstance(known, EnforceNotMet):
            return self._without(known, tensors, levels)
        variant, wanted = known
        if not any(variant.reached):
            return without_gradients(self.run_now, tensors, [as_lod(one) for one in levels])
        made = [self.held[name] for name in held]
        hands = bool(flags.value("refluid_declarative_hands"))
        # What was computed from nothing gets its gradient handed, unless a hook is to see it.
        direct = [hands and handed.may_take(one._value) for one in made]
        handed.promise(one._value for one, own in zip(made, direct, strict=True) if own)
        sources = [tensors[n] for n in feeds]
        sources += [one._value for one, own in zip(made, direct, strict=True) if not own]
        detached = [one.detach() if one.requires_grad else one for one in tensors]
        run = without_gradients(prepared(wanted).step(fed).begin, self.scope, detached, levels)
        begun = Begun(run, variant, made, direct)
        values, lods = without_gradients(begun.start)
        taken = {id(one) for one in detached}
        taken.update([id(cell.value) for cell, _ in self._cells])
        found = step(begun, values, taken, *((handed.anchor,) if any(direct) else ()), *sources)
        self._take_back()
        results = [
            result(value, as_lod(lod) if lod else [], stops=not reached)
            for value, lod, reached in zip(found, lods, variant.reached, strict=True)
        ]
        if not sources:
            self.reached, self.plain_step = variant.reached, not any(lods)
            begun.offer(results, self.whole.note)
        return results

    def _without(
        self, error: EnforceNotMet, tensors: Sequence[Tensor], levels: Sequence[Any]
    ) -> list[VarBase]:
        """The results, of which a gradient can't be had: an error for who asks for it."""
        found = without_gradients(self.run_now, tensors, [as_lod(one) for one in levels])
        source = torch.zeros((), requires_grad=True)
        return [
            result(refusing(one.held, error, source), one.lod, stops=False)
            if isinstance(one.held, Tensor) and one.held.is_floating_point()
            else one
            for one in found
        ]

    def _vary_or_not(
        self, feeds: tuple[int, ...], held: tuple[str, ...]
    ) -> tuple[Variant, Wanted] | EnforceNotMet:
        try:
            made = vary(self.program, self.feeds, self.fetches, [*self.held], (feeds, held))
            return made, self._wanted(made.program, made.gives)
        except EnforceNotMet as error:  # which matters if somebody asks for gradients
            return error

    def _take_back(self) -> None:
        """Gives variables the values that the program has put in place of theirs."""
        for cell, var in self._cells:
            if cell.value is not var._value:
                replace_value(var, cell.value)
                cell.value = var._value


def result(value: Any, lod: Any, *, stops: bool) -> VarBase:
    """A variable with a result."""
    made = VarBase(stop_gradient=stops)
    made.held = value
    if lod:
        made.lod = lod
    return made
