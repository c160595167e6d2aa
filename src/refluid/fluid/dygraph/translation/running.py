"""Programs of translated functions, run on variables of dygraph within torch's autograd.

A program that takes gradients is one plan: it pauses where the results are handed out, and goes
on with its gradient operators when autograd brings the results' gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from refluid.build import Blocks, apply, using
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import as_levels, as_lod
from refluid.core.scope import Scope
from refluid.core.selected_rows import SelectedRows
from refluid.eager import VarBase
from refluid.engine.group import Group
from refluid.engine.prepare import Prepared, Wanted, prepared
from refluid.engine.strategy import Strategy
from refluid.fluid.backward import gradients
from refluid.ir.block import Block
from refluid.ir.defaults import program_guard
from refluid.ir.program import Program

_FLOATS = ("FP16", "BF16", "FP32", "FP64")
_STRATEGY = Strategy()


@dataclass
class Variant:
    """The program for gradients of some of what it takes, ready to run.

    feeds, held: positions of what is fed, and names of variables, that gradients are wanted of.
    reached: whether each result depends on any of these. given: which gradients come back.
    """

    wanted: Wanted
    feeds: tuple[int, ...]
    held: tuple[str, ...]
    reached: tuple[bool, ...]
    given: tuple[int | None, ...]


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
        self._variants: dict[Any, Variant | EnforceNotMet] = {}
        self._plain = self._wanted(program, self.fetches)

    def _wanted(self, program: Program, fetches: tuple[str, ...]) -> Wanted:
        return Wanted(program, self.feeds, fetches, _STRATEGY, self.group)

    def run(self, tensors: Sequence[Tensor], lods: Sequence[Any]) -> list[VarBase]:
        """The results for these feeds, with gradients where torch records them."""
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
        variant = self._variants.get((feeds, held))
        if variant is None:
            variant = self._variants[feeds, held] = self._vary_or_not(feeds, held)
        if isinstance(variant, EnforceNotMet):
            return self._without(variant, tensors, levels)
        if not any(variant.reached):
            with torch.no_grad():
                return self.run(tensors, [as_lod(one) for one in levels])
        ready: Prepared = prepared(variant.wanted)
        plan = ready.step(fed)
        sources = [tensors[n] for n in feeds] + [self.held[name]._value for name in held]
        detached = [one.detach() if one.requires_grad else one for one in tensors]
        lods: list[Any] = []
        found = _Step.apply(  # type: ignore[no-untyped-call]
            self, variant, plan, detached, levels, lods, *sources
        )
        self._take_back()
        return [
            result(value, as_lod(lod) if lod else [], stops=not reached)
            for value, lod, reached in zip(found, lods, variant.reached, strict=True)
        ]

    def _without(
        self, error: EnforceNotMet, tensors: Sequence[Tensor], levels: Sequence[Any]
    ) -> list[VarBase]:
        """The results, of which a gradient can't be had: an error for who asks for it."""
        with torch.no_grad():
            found = self.run(tensors, [as_lod(one) for one in levels])
        source = torch.zeros((), requires_grad=True)
        return [
            result(_Refusing.apply(one.value, error, source), one.lod, stops=False)  # type: ignore[no-untyped-call]
            if isinstance(one.value, Tensor) and one.value.is_floating_point()
            else one
            for one in found
        ]

    def _vary_or_not(
        self, feeds: tuple[int, ...], held: tuple[str, ...]
    ) -> Variant | EnforceNotMet:
        try:
            return self._vary(feeds, held)
        except EnforceNotMet as error:  # which matters if somebody asks for gradients
            return error

    def _take_back(self) -> None:
        """Gives variables the values that the program has put in place of theirs."""
        for cell, var in self._cells:
            value = var._value
            if cell.value is value:
                continue
            if isinstance(value, Tensor) and value.requires_grad:
                value.data = cell.value
                cell.value = value
            else:
                var.value = cell.value

    def _vary(self, feeds: tuple[int, ...], held: tuple[str, ...]) -> Variant:
        program = self.program.clone()
        block = program.global_block()
        names = [*(self.feeds[n] for n in feeds), *held]
        for name in self.feeds:
            block.var(name).stop_gradient = name not in names
        for name in self.held:
            block.var(name).stop_gradient = name not in names
        reached = reachable(block, names)
        flags = tuple(name in reached for name in self.fetches)
        results = [block.var(name) for name in self.fetches]
        with program_guard(program, Program()), using(Blocks()):
            given = [
                block.create_var(name=f"{one.name}@GIVEN", dtype=one.dtype, shape=one.shape)
                for one, flag in zip(results, flags, strict=True)
                if flag
            ]
            for one in given:
                one.stop_gradient = True
            apply("pause", {"X": results}, {"Out": given})
            targets = [one for one, flag in zip(results, flags, strict=True) if flag]
            found = gradients(targets, [block.var(name) for name in names], given) if given else []
        made = [one.name for one in found or [None] * len(names) if one is not None]
        places = iter(range(len(made)))
        given_back = tuple(
            None if one is None else next(places) for one in found or [None] * len(names)
        )
        return Variant(self._wanted(program, tuple(made)), feeds, held, flags, given_back)


class _Refusing(torch.autograd.Function):
    """A value whose gradient can't be computed."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, error: EnforceNotMet, _source: Tensor) -> Tensor:
        ctx.error = error
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *_grads: Tensor) -> Any:
        raise ctx.error


class _Step(torch.autograd.Function):
    """A run of a program: its results at the pause, its gradients at the end."""

    @staticmethod
    def forward(
        ctx: Any,
        runner: ProgramRunner,
        variant: Variant,
        plan: Any,
        tensors: Any,
        levels: Any,
        lods: list[Any],
        *sources: Tensor,
    ) -> tuple[Any, ...]:
        ctx.run = plan.begin(runner.scope, tensors, levels)
        values, found = ctx.run.start()
        lods.extend(found)
        ctx.variant, ctx.runner = variant, runner
        ctx.like = [
            (one.shape, one.dtype)
            for one, reached in zip(values, variant.reached, strict=True)
            if reached
        ]
        ctx.set_materialize_grads(False)
        taken = {id(one) for one in (*sources, *tensors)}
        taken |= {id(cell.value) for cell, _ in runner._cells}
        results = tuple([one.clone() if id(one) in taken else one for one in values])
        fixed = [
            one
            for one, reached in zip(results, variant.reached, strict=True)
            if not reached and isinstance(one, Tensor)
        ]
        ctx.mark_non_differentiable(*fixed)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        run, variant, ctx.run = ctx.run, ctx.variant, None
        if run is None:
            raise EnforceNotMet(
                "backward went through a declarative function's result a second time, and what "
                "it needs is gone by then; call the function again"
            )
        if torch.is_grad_enabled():
            raise EnforceNotMet(
                "gradients of gradients don't reach through a declarative function; call "
                "ProgramTranslator().enable(False) before, so that it runs as plain dygraph"
            )
        wanted = [one for one, reached in zip(grads, variant.reached, strict=True) if reached]
        given = tuple(
            torch.zeros(shape, dtype=dtype, device=ctx.runner.device)
            if one is None
            else one.to(dtype).contiguous()
            for one, (shape, dtype) in zip(wanted, ctx.like, strict=True)
        )
        found, _ = run.finish(given)
        made: list[Any] = []
        names = [None] * len(variant.feeds) + [*variant.held]
        for name, place in zip(names, variant.given, strict=True):
            one = None if place is None else found[place]
            if isinstance(one, SelectedRows):
                one = _rows(ctx.runner.held[name], one) if name else one.to_dense()
            made.append(one)
        return (None, None, None, None, None, None, *made)


def _rows(var: VarBase, rows: SelectedRows) -> Tensor | None:
    """Adds rows alone to the gradient of a table."""
    return rows.to_dense()


def result(value: Any, lod: Any, *, stops: bool) -> VarBase:
    """A variable with a result."""
    made = VarBase(stop_gradient=stops)
    made.value = value
    if lod:
        made.lod = lod
    return made


def reachable(block: Block, names: Sequence[str]) -> set[str]:
    """The variables that depend on some of these by what has gradients."""
    found = set(names)
    for op in block.ops:
        if found.isdisjoint(op.input_arg_names):
            continue
        for name in op.output_arg_names:
            var = block.find_var_recursive(name)
            if var is not None and not var.stop_gradient and var.dtype.name in _FLOATS:
                found.add(name)
    return found
