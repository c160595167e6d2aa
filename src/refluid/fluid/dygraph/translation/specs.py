"""Programs of functions, found by the function and what it is called with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from refluid import eager
from refluid.eager import ParamBase
from refluid.fluid.dygraph.layers import Layer
from refluid.fluid.dygraph.translation.arguments import CallArguments, as_tensor, modes
from refluid.fluid.dygraph.translation.attributes import attributes_of, noted
from refluid.fluid.dygraph.translation.programs import (
    TracedFunction,
    as_program,
    fed,
    filled,
    made,
    runner,
)
from refluid.fluid.dygraph.translation.running import ProgramRunner
from refluid.ir.program import Program

# The attribute of a layer under which programs of its methods are kept.
_PROGRAMS = "_declarative_programs"


class FunctionSpec:
    """A function with what it is called with; equal ones have the same program."""

    def __init__(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> None:
        self._dyfunc, self._args, self._kwargs = func, tuple(args), dict(kwargs or {})
        self.owner: Any = getattr(func, "__self__", None)  # what it is a method of
        self.look()

    def look(self) -> None:
        """Sees which attributes matter, and what they hold."""
        owner, mode, held = self.owner, None, ()
        if isinstance(owner, Layer):
            known, mode = attributes_of(owner), modes(owner)
            held = () if known is None else known.values()
        self.arguments = CallArguments(self._args, self._kwargs, held)
        func = self._dyfunc
        self.key = (getattr(func, "__func__", func), id(owner), mode, self.arguments.key)

    @property
    def dyfunc(self) -> Callable[..., Any]:
        """The function."""
        return self._dyfunc

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        return self._args

    def is_method(self) -> bool:
        """Whether it is a method of a layer."""
        return isinstance(self.owner, Layer)

    def parameters(self, include_sublayer: bool = True) -> dict[str, Any]:
        """The parameters of the layer that it is a method of, by name."""
        if not self.is_method():
            return {}
        found = self.owner.parameters(include_sublayers=include_sublayer)
        return {one.name: one for one in found}

    def to_static_inputs(self, main_program: Program) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, with variables of a program that are fed in place of tensors."""
        inputs = [
            fed(main_program, f"feed_{number}", one)
            for number, one in enumerate(self.arguments.tensors)
        ]
        return self.arguments.with_tensors(inputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSpec) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class ConcreteProgram:
    """The program of a function for arguments of certain shapes and types."""

    def __init__(
        self,
        inputs: Sequence[Any],
        outputs: Any,
        parameters: Sequence[Any],
        func: Callable[..., Any],
        main_program: Program,
        startup_program: Program | None = None,
    ) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.parameters, self.function = parameters, func
        self.main_program, self.startup_program = main_program, startup_program
        self.made: TracedFunction | None = None
        self.kept: Any = None
        self._runner: ProgramRunner | None = None

    @staticmethod
    def from_func_spec(func_spec: FunctionSpec) -> ConcreteProgram:
        """The program of a function."""
        program = made(func_spec.dyfunc, func_spec.arguments)
        trained = [one for one in program.held.values() if isinstance(one, ParamBase)]
        found = ConcreteProgram(
            program.inputs,
            program.outputs,
            trained,
            func_spec.dyfunc,
            program.main,
            program.startup,
        )
        found.made, found.kept = program, func_spec.arguments.kept
        return found

    @property
    def runner(self) -> ProgramRunner:
        """What runs it."""
        if self._runner is None:
            now = eager.current()
            assert now is not None, "the program's variables are those of dygraph"
            assert self.made is not None
            self._runner = runner(self.made, now.place)
        return self._runner

    def run(self, given: CallArguments) -> Any:
        """What the function returns for these arguments."""
        ready, program = self.runner, self.made
        assert program is not None
        tensors = [as_tensor(one, ready.device) for one in given.tensors]
        for place in program.unread:  # no gradients go to what computed what is read no more
            tensors[place] = tensors[place].detach()
        lods = [getattr(one, "lod", []) for one in given.tensors]
        values = ready.run(tensors, lods)
        if len(values) == 1 and program.outputs is program.results[0] and not program.changes:
            return values[0]
        for one in program.changes:
            one.put(filled(one.value, values, program.results))
        return filled(program.outputs, values, program.results)


def _with_what_it_changes(spec: FunctionSpec) -> ConcreteProgram:
    """The program of a function; built anew where it is seen to change what it should be fed."""
    found = ConcreteProgram.from_func_spec(spec)
    assert found.made is not None
    if not found.made.changes or not noted(spec.owner, found.made.changes):
        return found
    spec.look()
    return _with_what_it_changes(spec)


class ProgramCache:
    """Programs by function and arguments; those of a layer's methods go with the layer."""

    def __init__(self) -> None:
        self._of_functions: dict[Any, ConcreteProgram] = {}
        self._latest: list[tuple[FunctionSpec, ConcreteProgram]] = []

    def __getitem__(self, item: FunctionSpec) -> ConcreteProgram:
        if not isinstance(item, FunctionSpec):
            raise ValueError(f"a program is found by a FunctionSpec, not {type(item).__name__}")
        known = self._known(item.owner)
        found = known.get(item.key)
        if found is None:
            found = _with_what_it_changes(item)
            known[item.key] = found
        if not self._latest or self._latest[0][1] is not found:
            self._latest[:] = [(item, found)]
        return found

    def _known(self, owner: Any) -> dict[Any, ConcreteProgram]:
        held = getattr(owner, "__dict__", None)
        if not isinstance(held, dict):
            return self._of_functions
        found: dict[Any, ConcreteProgram] = held.setdefault(_PROGRAMS, {})
        return found

    def of(self, function: Callable[..., Any]) -> ConcreteProgram | None:
        """The latest program of a function; None before there is one."""
        owner, plain = getattr(function, "__self__", None), getattr(function, "__func__", function)
        found = [one for key, one in self._known(owner).items() if key[0] is plain]
        return found[-1] if found else None

    def last(self) -> tuple[FunctionSpec, ConcreteProgram]:
        """The function and program that were asked for last. AssertionError before any was."""
        assert self._latest, "No cached program in ProgramCache."
        return self._latest[0]


class FunctionCache:
    """Translated functions by the functions that they are of."""

    def exist(self, func: Callable[..., Any]) -> bool:
        """Whether a function can be translated."""
        return isinstance(getattr(func, "__func__", func), FunctionType)

    def get_or_cache_func(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """The translated function, bound to what it was bound to."""
        return as_program(func)
