"""`CompiledProgram`: a program with the strategies by which it is to be run.

Options of strategies and their defaults are those of Fluid 1.8, as `engine.strategy` lists them. A
wrong name is an AttributeError, a wrong type a TypeError, a number out of bounds an OutOfBounds (an
EnforceNotMet and a ValueError), a change after the program was compiled an EnforceNotMet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from enum import IntEnum
from typing import Any, ClassVar

from refluid.collective.joining import trainers_of, with_trainers
from refluid.comm import Communicator
from refluid.core.bounds import whole_number
from refluid.core.errors import EnforceNotMet
from refluid.core.places import CPUPlace, CUDAPlace, Place, cpu_places, cuda_places
from refluid.core.scope import Scope
from refluid.engine.choices import overlaid
from refluid.engine.conditions import stage_of
from refluid.engine.fetches import fetch_names
from refluid.engine.knobs import Knob, frozen, thawed
from refluid.engine.replicated import Replicated
from refluid.engine.strategy import (
    BUILD,
    EXECUTION,
    GradientScaleStrategy,
    ReduceStrategy,
    Strategy,
)
from refluid.fluid.graphs.graph import Graph
from refluid.fluid.graphs.pass_builder import Pass as Pass
from refluid.fluid.graphs.pass_builder import PassBuilder as PassBuilder
from refluid.ir.attributes import OpRole
from refluid.ir.program import Program

__all__ = ["BuildStrategy", "CompiledProgram", "ExecutionStrategy"]


class _Options:
    """Options that users set one by one, until the program is compiled."""

    _knobs: ClassVar[Mapping[str, Knob]] = {}

    def __init__(self) -> None:
        values = {name: thawed(knob.default) for name, knob in self._knobs.items()}
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_finalized", False)

    def __getattr__(self, name: str) -> Any:
        values = object.__getattribute__(self, "_values")
        if name not in values:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}")
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        label = type(self).__name__
        if name not in self._knobs:
            known = ", ".join(sorted(self._knobs))
            raise AttributeError(f"{label} has no option {name!r}; there are: {known}")
        if self._finalized:
            raise EnforceNotMet(
                f"{label} has been finlaized, cannot be configured again. Make a new one "
                "before the program is compiled."
            )
        self._values[name] = _checked(f"{label}.{name}", self._knobs[name], value)

    def _finalize(self, **resolved: Any) -> None:
        """Writes values that were resolved, and forbids further changes."""
        object.__setattr__(self, "_given", dict(self._values))
        self._values.update(resolved)
        object.__setattr__(self, "_finalized", True)

    def _again(self) -> Any:
        """New ones with what was set before anything was resolved."""
        made = type(self)()
        object.__setattr__(
            made, "_values", dict(self._given if self._finalized else self._options())
        )
        return made

    def _options(self) -> dict[str, Any]:
        """All options with their values."""
        return dict(self._values)


class BuildStrategy(_Options):
    """How a program's graph is built: what is fused, and how gradients are exchanged."""

    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy
    _knobs = BUILD

    def _finalize_strategy_and_create_passes(self) -> PassBuilder:
        """The passes by Fluid's names, which may be looked at; refluid's run by the strategy."""
        return PassBuilder()


class ExecutionStrategy(_Options):
    """How a compiled program is run. `num_threads` 0 is resolved when the program is compiled."""

    _knobs = EXECUTION


def _checked(label: str, knob: Knob, value: Any) -> Any:
    """The value of an option."""
    kinds, default = knob.kinds, knob.default
    wrong = isinstance(value, bool) and bool not in kinds
    if wrong or not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{label} must be {wanted}, not {type(value).__name__}")
    if isinstance(default, frozenset):
        return set(value)
    if type(default) is int:
        return whole_number(label, value, knob.most, 0)
    return type(default)(value) if isinstance(default, IntEnum) else value


def _strategy(*given: _Options) -> Strategy:
    """What the user's objects ask for."""
    options = (item for one in given for item in one._options().items())
    return Strategy(**{name: frozen(value) for name, value in options})


class CompiledProgram:
    """A program to be run by `Executor.run`, replicated over several places if so asked.

    program_or_graph: the program, or the graph of one. build_strategy: how to build it.
    """

    def __init__(
        self, program_or_graph: Program | Graph, build_strategy: BuildStrategy | None = None
    ) -> None:
        if isinstance(program_or_graph, Graph):
            program_or_graph = program_or_graph.to_program()
        if not isinstance(program_or_graph, Program):
            raise TypeError(
                "The type of program_to_graph parameter is wrong, expected Graph or Program, but "
                f"received {type(program_or_graph)}"
            )
        self._program = program_or_graph
        self._build_strategy = build_strategy or BuildStrategy()
        self._exec_strategy = ExecutionStrategy()
        self._loss_name: str | None = None
        self._share_vars_from: CompiledProgram | None = None
        self._places: list[Place] | None = None
        self._is_data_parallel = False
        self._replicated: Replicated | None = None
        self._parts: dict[Program, CompiledProgram] = {}  # pruned for some runs

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        share_vars_from: CompiledProgram | None = None,
        places: Sequence[Place | str] | Place | None = None,
    ) -> CompiledProgram:
        """Replicates the program over `places`, each of which gets its share of every batch.

        loss_name: the loss, needed where the program has a backward pass. share_vars_from: a
        program that has been run, whose replicas' variables this one uses. places: all devices
        of the executor's kind where None; for CPUs their number is the variable CPU_NUM.
        """
        assert not self._is_data_parallel, "Already compiled with parallel, cannot be recompiled."
        if isinstance(loss_name, list | tuple):
            raise TypeError(f"loss_name is one name, not {loss_name!r}; give the name of the loss")
        self._is_data_parallel = True
        self._loss_name = loss_name
        self._build_strategy = build_strategy or self._build_strategy
        self._exec_strategy = exec_strategy or ExecutionStrategy()
        self._share_vars_from = share_vars_from
        if places is not None:
            listed: Any = places if isinstance(places, list | tuple) else [places]
            self._places = [_as_place(place) for place in listed]
        if _has_backward(self._program):
            assert loss_name is not None, (
                "The loss name of CompiledProgram is None. It should be given to "
                "with_data_parallel, because the program has a backward pass."
            )
        return self

    def _compile(self, scope: Scope, place: Place) -> Replicated:
        """The replicas, made for the scope of the first run."""
        if self._replicated is None:
            places = self._places
            if places is None:
                on_gpu = isinstance(place, CUDAPlace)
                places = list(cuda_places() if on_gpu else cpu_places())
            if not self._is_data_parallel:
                places = [place]
            self._places = places  # libraries count them (propeller)
            shared = self._share_vars_from
            if shared is not None and shared._replicated is None:
                raise RuntimeError(
                    "share_vars_from must be a program that has been run with data parallelism"
                )
            strategy = self._wanted()
            if self._is_data_parallel:
                strategy = with_trainers(strategy, self._program)
            self._replicated = Replicated(
                self._program,
                self._loss_name,
                strategy,
                places,
                scope,
                shared._replicated if shared is not None else None,
                self._trainers(strategy),
            )
            self._exec_strategy._finalize(**self._replicated.resolved)
            self._build_strategy._finalize()
        return self._replicated

    def _trainers(self, strategy: Strategy) -> Communicator:
        """The processes that have the same replicas, of other batches."""
        return trainers_of(strategy)

    def _again(self) -> CompiledProgram:
        """The same program and options, to be compiled anew when it is run."""
        twin = copy(self)
        twin._build_strategy = self._build_strategy._again()
        twin._exec_strategy = self._exec_strategy._again()
        twin._replicated, twin._parts = None, {}
        return twin

    def _part(self, program: Program, scope: Scope, place: Place) -> CompiledProgram:
        """A part of the program, which shares the replicas' variables; kept for further runs."""
        if program is self._program:
            return self
        if program not in self._parts:
            self._compile(scope, place)
            self._parts[program] = part = self._again()
            part._program, part._share_vars_from = program, self
        return self._parts[program]

    @contextmanager
    def _whole(self, scope: Scope) -> Iterator[None]:
        """Within the block the scope holds what other trainers own too; all must enter it."""
        made = self._replicated
        if made is None:
            yield
            return
        from refluid.engine.shares import whole  # few programs have shares

        stage = stage_of(made.strategy, made.group.trainers.size, len(made.places))
        with whole(self._program, scope, made.group.member(0), stage):
            yield

    def _wanted(self) -> Strategy:
        """What the options ask for."""
        return overlaid(_strategy(self._build_strategy, self._exec_strategy))


def _as_place(place: Place | str) -> Place:
    if not isinstance(place, str):
        return place
    if place == "cpu":
        return CPUPlace()
    kind, _, number = place.partition(":")
    if kind in ("gpu", "cuda"):
        return CUDAPlace(int(number or 0))
    raise ValueError(f"place {place!r} is none of 'cpu', 'gpu:0', 'gpu:1', ...")


def _has_backward(program: Program) -> bool:
    return any(op.role & OpRole.BACKWARD for block in program.blocks for op in block.ops)


def _served(program: Any, scope: Scope, place: Place, fetches: Any = None) -> Any:
    """What is run in place of a program in a scope whose tables are on servers."""
    if fetches:
        scope.served.tell_of_fetched(fetch_names(fetches), scope)
    if isinstance(program, CompiledProgram):
        return program._part(scope.served.in_place_of(program._program, scope), scope, place)
    return scope.served.in_place_of(program, scope) if isinstance(program, Program) else program
