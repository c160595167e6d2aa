"""Errors that follow from others: whether those are shown, and what stands for Python's own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from refluid.core import flags

# What Python raises where a function is given what it isn't made for.
PYTHONS = (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError)


def shown_cause(error: BaseException) -> BaseException | None:
    """For `raise clear from shown_cause(error)`, where `clear` says all that `error` does.

    The error itself with FLAGS_call_stack_level=2. Else nothing: what follows would be frames of
    refluid and of torch. `__context__` holds it all the same.
    """
    return error if int(flags.value("call_stack_level")) > 1 else None


def guard(names: Iterable[str], module: dict[str, Any], *others: dict[str, Any]) -> None:
    """Has functions of a module name themselves and their arguments where Python refuses these.

    others: globals of modules that have the same functions; where they are defined has them too.
    """
    for name in names:
        function = module.get(name)
        if isinstance(function, FunctionType) and not hasattr(function, "guarded"):
            home = vars(sys.modules[function.__module__])
            made = _guarded(function)
            for one in (module, home, *others):
                if one.get(name) is function:
                    one[name] = made


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        try:
            return function(*given, **options)
        except PYTHONS as error:
            from refluid.core.arguments import explain

            clear = explain(function, error, given, options)
            if clear is None:
                raise
            raise clear from shown_cause(error)

    call.guarded = True  # type: ignore[attr-defined]
    return call
