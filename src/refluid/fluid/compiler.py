"""`CompiledProgram`: a program with the strategies by which it is to be run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core.places import CPUPlace, CUDAPlace, Place, cpu_places, cuda_places
from refluid.fluid.replicated import Replicated
from refluid.fluid.strategies import BuildStrategy, ExecutionStrategy
from refluid.ir.attributes import OpRole
from refluid.ir.program import Program
from refluid.runtime.scope import Scope

__all__ = ["BuildStrategy", "CompiledProgram", "ExecutionStrategy"]


class CompiledProgram:
    """A program to be run by `Executor.run`, replicated over several places if so asked.

    program_or_graph: the program. build_strategy: how to build it.
    """

    def __init__(
        self, program_or_graph: Program, build_strategy: BuildStrategy | None = None
    ) -> None:
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
            shared = self._share_vars_from
            if shared is not None and shared._replicated is None:
                raise RuntimeError(
                    "share_vars_from must be a program that has been run with data parallelism"
                )
            self._replicated = Replicated(
                self._program,
                self._loss_name,
                self._build_strategy,
                self._exec_strategy,
                places,
                scope,
                shared._replicated if shared is not None else None,
            )
        return self._replicated


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
