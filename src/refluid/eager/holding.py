"""What `value()` of a variable that has its value gives: the variable of a scope, as it were."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from refluid.core.scope import Cell
from refluid.core.values import Lod


class Holding(Cell):
    """Reads and writes the value of a `VarBase`; operators that keep a state take it for a cell."""

    __slots__ = ("_of",)

    def __init__(self, of: Any) -> None:
        self._of = of

    @property
    def name(self) -> str:  # type: ignore[override]
        return str(self._of.name)

    @property
    def value(self) -> Any:
        return self._of.held

    @value.setter
    def value(self, value: Any) -> None:
        replace_value(self._of, value)

    @property
    def lod(self) -> Lod:
        lod: Lod = self._of.lod
        return lod

    @lod.setter
    def lod(self, lod: Lod) -> None:
        self._of.lod = lod


def replace_value(var: Any, value: Any) -> None:
    """Gives a variable another value.

    Where its own is trained, that stays the same leaf: gradients that are yet to come reach it.
    """
    held = var._value
    trained = isinstance(held, Tensor) and held.requires_grad
    if trained and isinstance(value, Tensor) and held.dtype == value.dtype:
        held.data = value
    else:
        var.held = value
