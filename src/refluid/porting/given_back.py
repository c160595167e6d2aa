"""What rewritten scripts call in place of a name that may be gone: first what is there, then that.

The script's own import of a name is left as it is; nothing is added to any library.
"""

from __future__ import annotations

import importlib
import logging
import operator
from collections.abc import Callable
from io import TextIOBase
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from refluid.core.fetched import FetchedArray, fetched
from refluid.porting.old_names import (
    BUILTINS,
    CHANGED,
    COMPRESSING,
    FILES,
    KEYWORDS,
    LISTS,
    METHODS,
    MODULES,
    RENAMED,
    WITH_LISTS,
)

_LOGGER = logging.getLogger("refluid")
# Names that were given back, and where each was first asked for.
_given: dict[str, str] = {}


def say() -> None:
    """One line in the log: the names that the script was given back since the last time."""
    if _given:
        names = ", ".join(f"{name} ({place})" for name, place in _given.items())
        _LOGGER.warning("names that are gone were given back to the script: %s", names)
        _given.clear()


def _note(name: str, file: str, line: int) -> None:
    _given.setdefault(name, f"{file}:{line}")


def attribute(base: Any, name: str, file: str, line: int) -> Any:
    """`base.name`, and where that is gone what it was."""
    if isinstance(base, ModuleType):
        changed = CHANGED.get((base.__name__, name))
        if changed is not None:
            return changed(base)
        known = MODULES.get(base.__name__, {})
        if name in known and name not in vars(base):
            _note(f"{base.__name__}.{name}", file, line)
            return _present(known[name], base.__name__)
        return getattr(base, name)
    try:
        return getattr(base, name)
    except AttributeError:
        needed, make = METHODS.get(name, ("", None))
        if (
            make is None
            or not hasattr(base, needed)
            or (name == "decode" and type(base) is not str)
        ):
            raise
        _note(f".{name}", file, line)
        return make(base)


def imported(module: str, name: str, file: str, line: int) -> Any:
    """What `from module import name` gives, and where that is gone what it gave."""
    if module in RENAMED:
        module = renamed(module, file, line).__name__
    known = MODULES.get(module, {})
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if name not in known or error.name != module:
            raise
        _note(f"{module}.{name}", file, line)  # the whole module is gone
        return _present(known[name], module)
    changed = CHANGED.get((module, name))
    if changed is not None:
        return changed(found)
    if hasattr(found, name):
        return getattr(found, name)
    if name not in known:
        try:
            return importlib.import_module(f"{module}.{name}")
        except ModuleNotFoundError:
            raise ImportError(
                f"cannot import name {name!r} from {module!r} ({getattr(found, '__file__', '')})",
                name=module,
            ) from None
    _note(f"{module}.{name}", file, line)
    return _present(known[name], module)


def renamed(module: str, file: str, line: int) -> ModuleType:
    """A module of Python 2 under its present name; one of the old name comes first."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
    _note(module, file, line)
    return importlib.import_module(RENAMED[module])


def beside(missing: ImportError, module: str, file: str, line: int) -> None:
    """Raises the error of an import again, unless the module beside the file was meant.

    So it is where there is no other of its name, or another one that lacks what is imported, or
    that imports this very file, which isn't done.
    """
    lacking = Path(missing.path or "")
    another = missing.name == module and not lacking.is_relative_to(Path(file).parent)
    if not another and lacking != Path(file):
        raise missing
    _note(f"import {module} of the same package", file, line)


def by_present_keywords(function: Any) -> Any:
    """A function of NumPy that takes its arguments by their old names too; any other as it is."""
    name = getattr(function, "__name__", "")
    if getattr(function, "__module__", None) != "numpy":
        return function
    present = {old: now for old, (now, functions) in KEYWORDS.items() if name in functions}
    return lambda *given, **options: function(
        *given, **{present.get(key, key): value for key, value in options.items()}
    )


def builtin(name: str, file: str, line: int) -> Any:
    """A builtin of Python 2."""
    _note(name, file, line)
    return _present(BUILTINS[name], "builtins")


def of_python2(name: str) -> Any:
    """A builtin as it was in Python 2."""
    return _present((LISTS | FILES)[name], "builtins")


def method_of_python2(base: Any, name: str) -> Any:
    """`base.keys`, `base.encode` and others that gave or took something else in Python 2."""
    found = getattr(base, name)
    if name in WITH_LISTS:
        return (lambda: list(found())) if isinstance(base, dict) else found
    if name == "open":
        if isinstance(base, ModuleType) and base.__name__ in COMPRESSING:
            from refluid.porting.python2_files import opening

            return opening(found)
        return found
    if isinstance(base, TextIOBase if name == "write" else str):
        from refluid.porting.python2_files import taking_bytes

        return taking_bytes(found, name)
    return found


def _present(value: Any, module: str) -> Any:
    if not isinstance(value, str):
        return value
    where, _, name = value.rpartition(":")
    return getattr(importlib.import_module(where or module), name)


def whole(value: Any) -> Any:
    """`int(value)`, also of an array of one element in any shape."""
    try:
        return int(value)
    except TypeError:
        return int(_as_number(value))


def real(value: Any) -> Any:
    """`float(value)`, also of an array of one element in any shape."""
    try:
        return float(value)
    except TypeError:
        return float(_as_number(value))


def kind(value: Any) -> Any:
    """`type(value)`, which is `numpy.ndarray` of a fetched array, too."""
    found = type(value)
    return np.ndarray if found is FetchedArray else found


def formatted(text: Any, values: Any) -> Any:
    """`text % values`, among them arrays of one element."""
    try:
        return text % values
    except TypeError:
        if isinstance(values, tuple):
            return text % tuple(map(_as_number, values))
        return text % _as_number(values)


def of_numbers(function: Any) -> Any:
    """A function of `math`, also of arrays of one element in any shape."""

    def call(*given: Any, **options: Any) -> Any:
        try:
            return function(*given, **options)
        except TypeError:
            return function(*map(_as_number, given), **options)

    return call if getattr(function, "__module__", None) == "math" else function


def _as_number(value: Any) -> Any:
    return fetched(value) if getattr(value, "size", 0) == 1 else value


def divided(one: Any, other: Any) -> Any:
    """`one / other` of Python 2: whole numbers give whole numbers, rounded down."""
    if _is_whole(one) and _is_whole(other):
        return operator.floordiv(one, other)
    return combined("/", one, other)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
}
# Truth, whole numbers, others.
_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 2}


def combined(symbol: str, one: Any, other: Any) -> Any:
    """`one symbol other`, of which a number of NumPy's makes no array wider than it needs, as
    before NumPy 2."""
    if isinstance(one, np.generic) and isinstance(other, np.ndarray):
        one = _narrowed(one, other)
    elif isinstance(other, np.generic) and isinstance(one, np.ndarray):
        other = _narrowed(other, one)
    return _OPERATORS[symbol](one, other)


def _narrowed(number: Any, array: Any) -> Any:
    """The number in the type that both had; one of another kind than the array stays as it is."""
    kind = _KINDS.get(number.dtype.kind, 3)
    if not array.ndim or kind > _KINDS.get(array.dtype.kind, -1):
        return number
    # A whole number that isn't negative needs one bit more in a type with a sign.
    signed = kind == 1 and number >= 0 and array.dtype.kind == "i"
    least = np.min_scalar_type(-1 - int(number) if signed else number)
    return np.result_type(array.dtype, least).type(number)


def _is_whole(value: Any) -> bool:
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return kind in ("i", "u", "b") if isinstance(kind, str) else isinstance(value, int)


def divided_in_place(one: Any, other: Any) -> Any:
    """What `one /= other` of Python 2 makes of `one`."""
    if _is_whole(one) and _is_whole(other):
        one //= other
    else:
        one /= other
    return one
