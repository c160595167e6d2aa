"""Functions of NumPy that still exist and refuse what they once took, as they were."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any


def array(numpy: ModuleType, name: str) -> Callable[..., Any]:
    """`numpy.array` and the like, which made rows of different lengths an array of objects."""
    make = getattr(numpy, name)

    def old(*given: Any, **options: Any) -> Any:
        if name == "array" and options.get("copy") is False:
            options["copy"] = None  # only where it must
        try:
            return make(*given, **options)
        except ValueError as error:
            if "inhomogeneous" not in str(error) or len(given) > 1 or options.get("dtype"):
                raise
            return make(*given, **(options | {"dtype": object}))

    return old


def copy(numpy: ModuleType) -> Callable[..., Any]:
    """`numpy.copy`, of rows of different lengths too."""

    def old(a: Any, order: Any = "K", subok: bool = False) -> Any:
        return array(numpy, "array")(a, order=order, subok=subok, copy=True)

    return old


def drawing(random: ModuleType, name: str) -> Callable[..., Any]:
    """`numpy.random.choice` and the like, from rows of different lengths too."""
    import numpy

    draw = getattr(random, name)

    def old(a: Any, *given: Any, **options: Any) -> Any:
        rows = array(numpy, "array")(a) if isinstance(a, list | tuple) else a
        return draw(rows, *given, **options)

    return old


def from_string(numpy: ModuleType) -> Callable[..., Any]:
    """`numpy.fromstring`, of bytes too."""

    def old(text: Any, dtype: Any = float, count: int = -1, sep: str = "", **options: Any) -> Any:
        if sep:
            return numpy.fromstring(text, dtype=dtype, count=count, sep=sep, **options)
        data = text.encode() if isinstance(text, str) else text
        return numpy.frombuffer(data, dtype=dtype, count=count).copy()

    return old


def places(numpy: ModuleType, name: str) -> Callable[..., Any]:
    """`numpy.where` and `numpy.nonzero`, which took a single truth for a row of one."""
    find = getattr(numpy, name)

    def old(condition: Any, *given: Any, **options: Any) -> Any:
        try:
            return find(condition, *given, **options)
        except ValueError:
            if given or options or numpy.ndim(condition):
                raise
            return find([condition])

    return old


STACKS = ("stack", "vstack", "hstack", "dstack", "column_stack")


def stacking(numpy: ModuleType, name: str) -> Callable[..., Any]:
    """`numpy.stack` and the like, of arrays that a generator or `map` makes too."""
    stack = getattr(numpy, name)

    def old(*given: Any, **options: Any) -> Any:
        if given and not hasattr(given[0], "__getitem__"):
            given = list(given[0]), *given[1:]
        return stack(*given, **options)

    return old


SAVES = ("save", "savez", "savez_compressed")


def saving(numpy: ModuleType, name: str) -> Callable[..., Any]:
    """`numpy.savez` and the like, of rows of different lengths too."""
    save, made = getattr(numpy, name), array(numpy, "asanyarray")

    def old(file: Any, *given: Any, **options: Any) -> Any:
        ready = [made(one) if isinstance(one, list | tuple) else one for one in given]
        named = {
            key: made(one) if isinstance(one, list | tuple) else one for key, one in options.items()
        }
        return save(file, *ready, **named)

    return old
