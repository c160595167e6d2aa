"""Whole numbers as users write them: Python's, and NumPy's, which are no `int`."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeIs


def is_whole(value: Any) -> TypeIs[int]:
    """Whether it is one whole number: 3, True or numpy.int64(3)."""
    return isinstance(value, Integral)


def elements(values: Any, what: str) -> list[Any]:
    """The elements of what should be whole numbers and isn't one; TypeError where it has none."""
    if hasattr(values, "__iter__"):
        return list(values)
    half = ": a / b is a float since Python 3, a // b is whole" if isinstance(values, float) else ""
    raise TypeError(f"{what} must be an int or several, not {values!r}{half}")
