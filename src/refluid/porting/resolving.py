"""Which of Fluid's names refluid has: asked of the real modules."""

from __future__ import annotations

import functools
import importlib
import inspect
from types import ModuleType
from typing import Any

from refluid.core.former import former_arguments
from refluid.paddle.alias import real_name

# How names begin their docstring that resolve, and raise when they are used.
_ABSENT = ("Not there yet", "Not supported")


@functools.cache
def missing_part(name: str) -> str | None:
    """The first part of a dotted `paddle` name that refluid lacks; None where it has all of it.

    Parts of what is neither module nor class are not looked at.
    """
    parts = name.split(".")
    found: Any = None
    for place, part in enumerate(parts):
        path = ".".join(parts[: place + 1])
        if place == 0:
            found = _imported(path)
        elif isinstance(found, ModuleType):
            found = _member(found, part, path)
        elif isinstance(found, type):
            found = getattr(found, part, None) if hasattr(found, part) else None
        else:
            return None
        if found is None:
            return path
        if (getattr(found, "__doc__", None) or "").startswith(_ABSENT):
            return path
    return None


@functools.cache
def unknown_argument(name: str, keyword: str) -> bool:
    """Whether a function or class of refluid's doesn't take an argument of this name."""
    found: Any = None
    for place, part in enumerate(name.split(".")):
        found = _imported(part) if place == 0 else getattr(found, part, None)
    try:
        taken = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return False
    any_name = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken)
    names = {one.name for one in taken} | set(former_arguments(found))
    return not any_name and keyword not in names


def _member(module: ModuleType, part: str, path: str) -> Any:
    try:
        value = getattr(module, part)
    except (AttributeError, ImportError):
        return _imported(path)
    return _NOTHING if value is None else value


class _Nothing:
    """Stands for a name whose value is None."""


_NOTHING = _Nothing()


def _imported(path: str) -> ModuleType | None:
    real = real_name(path)
    try:
        return None if real is None else importlib.import_module(real)
    except ImportError:
        return None
