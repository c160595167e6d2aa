"""`ProgramTranslator`: functions of dygraph as programs, and what they compute as programs."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

from refluid import eager
from refluid.build import Blocks, using
from refluid.fluid.dygraph.translation.declaring import building, declaring
from refluid.fluid.dygraph.translation.programs import ASKED, as_program
from refluid.fluid.dygraph.translation.specs import (
    ConcreteProgram,
    FunctionCache,
    FunctionSpec,
    ProgramCache,
)
from refluid.fluid.executor import Executor, scope_guard
from refluid.fluid.saving.inference_model import save_inference_model
from refluid.ir.program import Program
from refluid.translate import translated

__all__ = ["ProgramTranslator", "convert_function_with_cache"]

# What the module has beside what it is for.
_OTHERS = ConcreteProgram, FunctionSpec, ProgramCache
_log = logging.getLogger("refluid")


_functions = FunctionCache()


def convert_function_with_cache(dygraph_func: Callable[..., Any]) -> Callable[..., Any]:
    """The translated function."""
    return _functions.get_or_cache_func(undecorated(dygraph_func))


class ProgramTranslator:
    """Translates functions of dygraph into programs; there is one for all.

    ProgramTranslator().enable(False)    # declarative functions run as plain dygraph
    """

    _instance: ProgramTranslator | None = None
    _program_cache = ProgramCache()
    enable_declarative = True

    def __new__(cls, *_args: Any, **_kwargs: Any) -> ProgramTranslator:
        """The one that there is."""
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    @classmethod
    def get_instance(cls) -> ProgramTranslator:
        """The one that there is."""
        return cls()

    @classmethod
    def reset(cls) -> None:
        """Forgets all programs of functions, and translates again."""
        cls._instance = None
        ProgramTranslator._program_cache = ProgramCache()
        ProgramTranslator.enable_declarative = True

    def enable(self, enable_declarative: bool) -> None:
        """Whether functions are translated, or run as they are. TypeError for other than bool."""
        if not isinstance(enable_declarative, bool):
            raise TypeError(
                "The type of 'enable_declarative' in ProgramTranslator.enable must be bool, but "
                f"received {type(enable_declarative)}."
            )
        ProgramTranslator.enable_declarative = enable_declarative

    def get_output(self, dygraph_func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What the function's program gives for these arguments, with gradients."""
        function = _callable("get_output", dygraph_func)
        if not self.enable_declarative:
            _log.warning("ProgramTranslator is disabled: %s runs as it is", _name(function))
            return function(*args, **kwargs)
        spec = FunctionSpec(function, args, kwargs)
        return self._program_cache[spec].run(spec.arguments)

    def get_func(self, dygraph_func: Callable[..., Any]) -> Callable[..., Any]:
        """The function translated: called while a program is built, it appends to that."""
        function = _callable("get_func", dygraph_func)
        if not self.enable_declarative:
            _log.warning("ProgramTranslator is disabled: %s stays as it is", _name(function))
            return function
        return appending(function)

    def get_program(
        self, dygraph_func: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> tuple[Program, Program | None, list[Any], list[Any]] | Any:
        """(main program, startup program, variables that are fed, variables of the results)."""
        function = _callable("get_program", dygraph_func)
        if not self.enable_declarative:
            _log.warning("ProgramTranslator is disabled: %s runs as it is", _name(function))
            return function(*args, **kwargs)
        found = self._program_cache[FunctionSpec(function, args, kwargs)]
        assert found.made is not None
        results = found.made.returned
        return found.main_program, found.startup_program, list(found.inputs), results

    def get_code(self, dygraph_func: Callable[..., Any]) -> str:
        """The translated function's source."""
        function = _callable("get_code", dygraph_func)
        plain: Any = getattr(function, "__func__", function)
        return translated(plain, ASKED).text

    def get_program_cache(self) -> ProgramCache:
        """The programs of functions."""
        return self._program_cache

    def save_inference_model(
        self, dirname: str, feed: Sequence[int] | None = None, fetch: Sequence[int] | None = None
    ) -> None:
        """Saves the program that was asked for last, with its variables, for inference.

        feed, fetch: positions of those inputs and results to keep; all unless given.
        """
        _, found = self._program_cache.last()
        program = found.made
        assert program is not None
        feeds = at_positions("feed", program.needed, feed)
        fetches = at_positions("fetch", program.returned, fetch)
        ready = found.runner
        for name, var in ready.held.items():
            ready.scope.var(name).value = var.tensor.detach()
        with using(Blocks()), scope_guard(ready.scope):
            save_inference_model(
                dirname=dirname,
                feeded_var_names=[one.name for one in feeds],
                target_vars=fetches,
                executor=Executor(ready.place),
                main_program=program.main.clone(),
            )


def at_positions(what: str, variables: Sequence[Any], places: Sequence[int] | None) -> list[Any]:
    """Those at some positions, all unless given. ValueError for a position that there isn't."""
    if places is None:
        return list(variables)
    for place in places:
        if not isinstance(place, int) or not -len(variables) <= place < len(variables):
            raise ValueError(
                f"save_inference_model: {what} has {place!r}, but there are {len(variables)} to "
                "choose from by position"
            )
    return [variables[place] for place in places]


def _callable(where: str, function: Any) -> Callable[..., Any]:
    assert callable(function), f"Input dygraph_func is not a callable in ProgramTranslator.{where}"
    found: Callable[..., Any] = undecorated(function)
    return found


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", repr(function)))


class DeclarativeFunction:
    """A decorated function, which runs as a program in dygraph."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = self._function = function
        functools.update_wrapper(self, function)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self
        bound = DeclarativeFunction.__new__(DeclarativeFunction)
        bound.__dict__.update(self.__dict__)
        bound.__wrapped__ = bound._function = self._function.__get__(owner, kind)
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return run(self._function, args, kwargs)


def run(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls a function as its program, where it should be one."""
    translator = ProgramTranslator()
    if not translator.enable_declarative:
        return function(*args, **kwargs)
    if eager.current() is None:
        return appending(function)(*args, **kwargs)
    return translator.get_output(function, *args, **kwargs)


def appending(function: Callable[..., Any]) -> Callable[..., Any]:
    """The translated function, which appends to the program that is being built."""

    @functools.wraps(function)
    def append(*args: Any, **kwargs: Any) -> Any:
        if eager.current() is not None:
            return function(*args, **kwargs)
        translated_function = as_program(function)
        if declaring() is not None:
            return translated_function(*args, **kwargs)
        with building(ASKED.callee):
            return translated_function(*args, **kwargs)

    return append


def undecorated(function: Any) -> Any:
    """The function that was decorated by `declarative`."""
    return function._function if isinstance(function, DeclarativeFunction) else function
