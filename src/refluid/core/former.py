"""Arguments that Fluid 1.3 to 1.7 took and 1.8 doesn't: still taken, and said so once."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

_LOGGER = logging.getLogger("refluid")
_Function = TypeVar("_Function", bound=Callable[..., Any])
_said: set[tuple[str, str]] = set()


def formerly(*names: str, keep: bool = False) -> Callable[[_Function], _Function]:
    """A decorator: the function may be given these arguments, by name.

    They change nothing; with `keep`, the first argument (an object) is given them as attributes.
    The function's signature stays that of 1.8.
    """

    def around(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*given: Any, **options: Any) -> Any:
            former = {name: options.pop(name) for name in names if name in options}
            for name, value in former.items():
                _say(function.__qualname__, name, keep)
                if keep:
                    setattr(given[0], name, value)
            return function(*given, **options)

        call.former = names  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return around


def formerly_called(**names: str) -> Callable[[_Function], _Function]:
    """A decorator: the function takes arguments by the names that they had, too.

    names: former name -> today's. TypeError for one that is given by both.
    """

    def around(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*given: Any, **options: Any) -> Any:
            renamed = {names[one]: options.pop(one) for one in [*options] if one in names}
            return function(*given, **renamed, **options)

        call.former = tuple(names)  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return around


def former_arguments(function: Any) -> tuple[str, ...]:
    """What a function or class takes besides its signature."""
    made = vars(function).get("__init__") if isinstance(function, type) else function
    names: tuple[str, ...] = getattr(made, "former", ())
    return names


def _say(function: str, name: str, kept: bool) -> None:
    if (function, name) not in _said:
        _said.add((function, name))
        what = "works as it did" if kept else "changes nothing"
        _LOGGER.warning(
            "%s: Fluid 1.8 has no argument %r any more; it %s",
            function.removesuffix(".__init__"),
            name,
            what,
        )
