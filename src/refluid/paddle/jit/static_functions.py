"""`to_static`: functions that run as programs, and what isn't to be translated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from refluid.fluid.dygraph.dygraph_to_static.program_translator import (
    DeclarativeFunction,
    ProgramTranslator,
)
from refluid.fluid.dygraph.layers import Layer
from refluid.fluid.dygraph.translation import callees
from refluid.fluid.dygraph.translation.specs import ConcreteProgram
from refluid.translate import function as translation

_log = logging.getLogger("refluid")


class StaticFunction(DeclarativeFunction):
    """A function that runs as a program, as `declarative` makes it; made by `to_static`.

    input_spec: what it is given, which only `save` needs: each shape has a program of its own.
    """

    def __init__(self, function: Callable[..., Any], input_spec: Any = None) -> None:
        super().__init__(function)
        self._input_spec = input_spec

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        bound = super().__get__(owner, kind)
        if bound is not self:
            bound.__class__ = StaticFunction
        return bound

    @property
    def dygraph_function(self) -> Callable[..., Any]:
        """The function itself."""
        return self._function

    @property
    def code(self) -> str:
        """The translated function's source."""
        return ProgramTranslator().get_code(self._function)

    @property
    def concrete_program(self) -> ConcreteProgram | None:
        """The program that was made last for it; None before any was."""
        return ProgramTranslator().get_program_cache().of(self._function)

    def rollback(self) -> Callable[..., Any]:
        """The function itself, which takes this one's place in its layer."""
        owner = getattr(self._function, "__self__", None)
        if owner is not None:
            owner.__dict__.pop(self._function.__name__, None)
        return self._function


def to_static(
    function: Any = None,
    input_spec: Any = None,
    build_strategy: Any = None,
    backend: Any = None,
    **kwargs: Any,
) -> Any:
    """The function, or a layer with its `forward`, runs as a program. A decorator, too.

    @paddle.jit.to_static
    def forward(self, x):
        if x.mean() > 0:        # becomes two conditional blocks
            x = -x
        return self.linear(x)

    input_spec: a list of InputSpec for `paddle.jit.save`. build_strategy, backend: taken; programs
    of functions are rewritten by the passes that always run.
    """

    def around(given: Any) -> Any:
        if isinstance(given, StaticFunction):
            return given
        if isinstance(given, Layer):
            forward = given.forward
            if not isinstance(forward, StaticFunction):
                given.forward = StaticFunction(_plain(forward), input_spec)  # type: ignore[method-assign]
            return given
        if isinstance(given, staticmethod):
            return staticmethod(StaticFunction(given.__func__, input_spec))
        return StaticFunction(_plain(given), input_spec)

    return around if function is None else around(function)


def _plain(function: Any) -> Callable[..., Any]:
    found: Any = function._function if isinstance(function, DeclarativeFunction) else function
    if not callable(found):
        raise TypeError(f"paddle.jit.to_static takes a function or a layer, not {found!r}")
    return found  # type: ignore[no-any-return]


def enable_to_static(enable_to_static_bool: bool) -> None:
    """Whether functions run as programs, or as they are. TypeError for anything but a bool."""
    ProgramTranslator().enable(enable_to_static_bool)


def not_to_static(func: Callable[..., Any] | None = None) -> Any:
    """The function is called as it is where a program is built. A decorator."""
    if func is None:
        return not_to_static
    callees.leave(func)
    return func


def ignore_module(modules: Sequence[ModuleType]) -> None:
    """Functions of these modules are called as they are where a program is built."""
    for one in modules:
        callees.leave_module(one.__name__)


def set_code_level(level: int = 100, also_to_stdout: bool = False) -> None:
    """Each function's source is logged as it is translated; level 0: no more. TypeError."""
    if not isinstance(level, int) or isinstance(level, bool):
        raise TypeError("The level should be an int.")
    show: Callable[[str], None] = print if also_to_stdout else _log.warning
    translation.show = show if level > 0 else None


def set_verbosity(level: int = 0, also_to_stdout: bool = False) -> None:
    """How much of translating is logged: 0 what matters, more all. TypeError, ValueError."""
    if not isinstance(level, int) or isinstance(level, bool):
        raise TypeError("The level should be an int.")
    if level < 0:
        raise ValueError("The level should be no less than 0.")
    _log.setLevel(logging.DEBUG if level else logging.NOTSET)
    if also_to_stdout and level:
        logging.basicConfig()
