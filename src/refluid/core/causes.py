"""Errors that follow from others: whether those are shown, and what stands for Python's own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any

from refluid.core import flags

# What Python raises where a function is given what it isn't made for.
PYTHONS = (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError)
_guards: set[CodeType] = set()
_BESIDE = {"None", "Variable"}


def shown_cause(error: BaseException) -> BaseException | None:
    """For `raise clear from shown_cause(error)`, where `clear` says all that `error` does.

    The error itself with FLAGS_call_stack_level=2. Else nothing: what follows would be frames of
    refluid and of torch. `__context__` holds it all the same.
    """
    return error if int(flags.value("call_stack_level")) > 1 else None


def guard(
    names: Iterable[str], module: dict[str, Any], *others: dict[str, Any], checked: bool = False
) -> None:
    """Has functions and classes of a module name themselves and their arguments where Python
    refuses these.

    others: globals of modules that have the same functions; where they are defined has them too.
    checked: classes refuse what is no number where their annotations want one, before it is used.
    """
    for name in names:
        one = module.get(name)
        if isinstance(one, FunctionType) and not hasattr(one, "guarded"):
            made = _guarded(one, frozenset())
            for there in (module, vars(sys.modules[one.__module__]), *others):
                if there.get(name) is one:
                    there[name] = made
        for base in one.__mro__ if isinstance(one, type) else ():
            maker = vars(base).get("__init__")
            if isinstance(maker, FunctionType) and not hasattr(maker, "guarded"):
                numbers = _numbers(maker) if checked else frozenset()
                base.__init__ = _guarded(maker, numbers)  # type: ignore[misc]
            if maker is not None:
                break


def _numbers(function: FunctionType) -> frozenset[str]:
    """The arguments that are numbers, maybe none or a variable, as annotations say."""
    kinds = {name: {*str(hint).split(" | ")} for name, hint in function.__annotations__.items()}
    numbers = {"int", "float"}
    return frozenset(
        name for name, kind in kinds.items() if kind & numbers and kind <= numbers | _BESIDE
    )


def _guarded(function: FunctionType, numbers: frozenset[str]) -> Callable[..., Any]:
    names = function.__code__.co_varnames if numbers else ()

    @functools.wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        for name, value in (*zip(names, given, strict=False), *options.items()) if names else ():
            if name in numbers and not isinstance(value, int | float):
                from refluid.core.arguments import check

                check(function, given[0], name, value)
        try:
            return function(*given, **options)
        except PYTHONS as error:
            from refluid.core.arguments import explain

            clear = explain(function, error, given, options)
            if clear is None:
                raise
            raise clear from shown_cause(error)

    call.guarded = True  # type: ignore[attr-defined]
    _guards.add(call.__code__)  # type: ignore[attr-defined]
    return call


def unguarded(function: Any) -> Any:
    """The function that `guard` put another around; any other as it is."""
    guards = getattr(function, "__code__", None) in _guards
    return function.__wrapped__ if guards else function
