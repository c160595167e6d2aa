"""A translated function as a program: traced with variables in place of the tensors given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType, MethodType
from typing import Any

from refluid.core import names
from refluid.core.dtypes import as_dtype
from refluid.eager import VarBase
from refluid.fluid.dygraph.layers import Layer
from refluid.fluid.dygraph.translation.arguments import CallArguments, replaced
from refluid.fluid.dygraph.translation.asked import ControlAnswers
from refluid.fluid.dygraph.translation.attributes import Change, attributes_of, watched
from refluid.fluid.dygraph.translation.declaring import building
from refluid.fluid.dygraph.translation.running import ProgramRunner
from refluid.fluid.dygraph.translation.values import TensorArray, static
from refluid.fluid.executor import Executor, scope_guard
from refluid.ir.defaults import program_guard
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.translate import translated

ASKED = ControlAnswers()


@dataclass
class TracedFunction:
    """A function's program: what is fed, what it gives, and which variables it takes.

    outputs: as the function returns them, with variables of the program where tensors were.
    changes: attributes that it has changed, with such values. count: of inputs that are arguments.
    """

    main: Program
    startup: Program
    inputs: list[Variable]
    outputs: Any
    held: dict[str, VarBase]
    changes: list[Change]
    count: int

    @cached_property
    def results(self) -> list[Variable]:
        """The variables among the outputs and in attributes, each once."""
        return self._among([self.outputs, *(one.value for one in self.changes)])

    @cached_property
    def returned(self) -> list[Variable]:
        """The variables among the outputs, each once."""
        return self._among(self.outputs)

    @cached_property
    def unread(self) -> frozenset[int]:
        """Positions of inputs that attributes held and no operator reads."""
        read = {one.name for one in self.results}
        for block in self.main.blocks:
            read.update(name for op in block.ops for name in op.input_arg_names)
        held = enumerate(self.inputs[self.count :], self.count)
        return frozenset(place for place, one in held if one.name not in read)

    @cached_property
    def needed(self) -> list[Variable]:
        """The inputs that are arguments, and those from attributes that are read."""
        return [one for place, one in enumerate(self.inputs) if place not in self.unread]

    def _among(self, outputs: Any) -> list[Variable]:
        found: dict[str, Variable] = {}

        def note(one: Variable) -> Variable:
            found[one.name] = one
            return one

        replaced(outputs, lambda one: isinstance(one, Variable), note)
        return [*found.values()]


def made(
    function: Callable[..., Any], given: CallArguments, feeds: Sequence[str] | None = None
) -> TracedFunction:
    """The program of a call. RecursionError, with a reason, where it would never end.

    feeds: the names of what is fed.
    """
    fed_as = feeds or [f"feed_{number}" for number in range(len(given.tensors))]
    main, startup = Program(), Program()
    owner = getattr(function, "__self__", None)
    known = attributes_of(owner) if isinstance(owner, Layer) else None
    places = [] if known is None or not given.held else known.places
    with program_guard(main, startup), names.guard(), building(ASKED.callee) as backend:
        inputs = [fed(main, *one) for one in zip(fed_as, given.tensors, strict=True)]
        args, kwargs = given.with_tensors(inputs)
        try:
            with watched(owner, places, given.held_with(inputs)) as changes:
                outputs = as_program(function)(*args, **kwargs)
        except RecursionError:
            raise RecursionError(
                f"{function.__name__} calls itself with no end while its program is built: a "
                "tensor decides when it stops, and a program is built before tensors have "
                "values. Write it as a loop"
            ) from None
        outputs = replaced(ASKED.result(outputs), _is_result, _result)
        for one in changes:
            one.value = replaced(one.value, _is_result, _result)
    return TracedFunction(main, startup, inputs, outputs, backend.held, changes, given.count)


def as_program(function: Callable[..., Any]) -> Callable[..., Any]:
    """The translated function, still bound to what it was bound to."""
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, FunctionType):
        raise TypeError(f"{function!r} is no function that is written in Python")
    found = translated(plain, ASKED).function
    owner = getattr(function, "__self__", None)
    return found if owner is None else MethodType(found, owner)


def fed(main: Program, name: str, value: Any) -> Variable:
    """A variable that is fed a tensor's value."""
    made = main.global_block().create_var(
        name=name,
        shape=list(value.shape),
        dtype=as_dtype(value.dtype),
        lod_level=len(value.lod) if isinstance(value, VarBase) else 0,
        is_data=True,
        need_check_feed=False,
    )
    made.stop_gradient = bool(getattr(value, "stop_gradient", True))
    return made


def _is_result(value: Any) -> bool:
    return isinstance(value, Variable | TensorArray)


def _result(value: Any) -> Variable:
    if isinstance(value, TensorArray):
        raise TypeError(
            "a declarative function can't return a list that a loop over tensors filled; return "
            "layers.stack or layers.concat of it"
        )
    found: Variable = static(value)
    return found


def runner(program: TracedFunction, place: Any) -> ProgramRunner:
    """What runs a program on variables of dygraph; its own parameters are given first values."""
    feeds = [one.name for one in program.inputs]
    fetches = [one.name for one in program.results]
    ready = ProgramRunner(program.main, feeds, fetches, program.held, place)
    if program.startup.global_block().ops:
        from refluid.build import Blocks, using

        with using(Blocks()), scope_guard(ready.scope):
            Executor(place).run(program.startup)
    return ready


def filled(outputs: Any, values: Sequence[VarBase], results: Sequence[Variable]) -> Any:
    """What the function returns, with results in place of the program's variables."""
    lookup = {var.name: value for var, value in zip(results, values, strict=True)}
    return replaced(outputs, lambda one: isinstance(one, Variable), lambda one: lookup[one.name])
