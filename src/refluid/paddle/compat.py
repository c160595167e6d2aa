"""`paddle.compat`: what scripts for Python 2 and 3 alike ask for."""

from __future__ import annotations

import math
from typing import Any

__all__ = [
    "floor_division",
    "get_exception_message",
    "long_type",
    "round",
    "to_bytes",
    "to_text",
]

int_type = int
long_type = int


def to_text(obj: Any, encoding: str = "utf-8", inplace: bool = False) -> Any:
    """Bytes as text, also those in a list or set; anything else as it is.

    inplace: the list or set itself is changed.
    """
    return _converted(
        obj, lambda one: one.decode(encoding) if isinstance(one, bytes) else one, inplace
    )


def to_bytes(obj: Any, encoding: str = "utf-8", inplace: bool = False) -> Any:
    """Text as bytes, also that in a list or set; anything else as it is.

    inplace: the list or set itself is changed.
    """
    return _converted(
        obj, lambda one: one.encode(encoding) if isinstance(one, str) else one, inplace
    )


def _converted(obj: Any, convert: Any, inplace: bool) -> Any:
    if not isinstance(obj, list | set):
        return convert(obj)
    values = type(obj)(convert(one) for one in obj)
    if not inplace:
        return values
    obj.clear()
    (obj.extend if isinstance(obj, list) else obj.update)(values)
    return obj


def round(x: float, d: int = 0) -> float:
    """Rounded to `d` places, halves away from zero as Python 2 did."""
    if not math.isfinite(x):
        return x
    scale = 10.0**d
    return float(math.copysign(math.floor(abs(x) * scale + 0.5), x)) / scale


def floor_division(x: Any, y: Any) -> Any:
    """`x // y`."""
    return x // y


def get_exception_message(exc: BaseException) -> str:
    """An exception's text."""
    return str(exc)
