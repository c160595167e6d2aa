"""Arithmetic of declared sizes: what is computed of an unknown one is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class _Unknown(int):
    """-1, and so is its sum, difference, product or quotient with any number."""

    def _itself(self, _other: Any) -> _Unknown:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _itself
    __floordiv__ = __rfloordiv__ = _itself


_UNKNOWN = _Unknown(-1)


def reckoned(shape: Iterable[int]) -> tuple[int, ...]:
    """The sizes, to compute others with: -1 for each that follows from -1."""
    return tuple(_UNKNOWN if size == -1 else size for size in shape)
