"""Whole numbers as users write them: Python's, and NumPy's, which are no `int`."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeIs


def is_whole(value: Any) -> TypeIs[int]:
    """Whether it is one whole number: 3, True or numpy.int64(3)."""
    return isinstance(value, Integral)
