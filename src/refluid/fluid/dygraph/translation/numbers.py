"""Python's numbers that a program has to compute: variables that reckon as numbers do.

A number takes the element type of a tensor that it meets; of a whole number and a fraction comes
a fraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import arithmetic
from refluid.core.dtypes import FLOATING, VarType
from refluid.fluid.functions.tensor.assignment import assign
from refluid.fluid.functions.tensor.creation import fill_constant
from refluid.ir.variable import Variable

_COMPARISONS = frozenset(
    {"equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"}
)


class Number(Variable):
    """A variable of one element that stands for a number of Python's."""

    __hash__ = object.__hash__

    def _with(self, other: Any, type: str, *, reverse: bool = False) -> Any:
        if isinstance(other, Variable) and not isinstance(other, Number):
            return arithmetic.binary(_as(self, other.dtype), other, type, reverse=reverse)
        kind = _kind(self.dtype, other, divides=type == "elementwise_div")
        if isinstance(other, Variable):
            other = _as(other, kind)
        found = arithmetic.binary(_as(self, kind), other, type, reverse=reverse)
        return found if type in _COMPARISONS else number(found)

    def __neg__(self) -> Any:
        return number(super().__neg__())

    def __add__(self, other: Any) -> Any:
        return self._with(other, "elementwise_add")

    def __radd__(self, other: Any) -> Any:
        return self._with(other, "elementwise_add", reverse=True)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, "elementwise_sub")

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, "elementwise_sub", reverse=True)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, "elementwise_mul")

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, "elementwise_mul", reverse=True)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, "elementwise_div")

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, "elementwise_div", reverse=True)

    def __pow__(self, other: Any) -> Any:
        return self._with(other, "elementwise_pow")

    def __rpow__(self, other: Any) -> Any:
        return self._with(other, "elementwise_pow", reverse=True)

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, "elementwise_floordiv")

    def __mod__(self, other: Any) -> Any:
        return self._with(other, "elementwise_mod")

    def __eq__(self, other: Any) -> Any:
        return self._with(other, "equal")

    def __ne__(self, other: Any) -> Any:
        return self._with(other, "not_equal")

    def __lt__(self, other: Any) -> Any:
        return self._with(other, "less_than")

    def __le__(self, other: Any) -> Any:
        return self._with(other, "less_equal")

    def __gt__(self, other: Any) -> Any:
        return self._with(other, "greater_than")

    def __ge__(self, other: Any) -> Any:
        return self._with(other, "greater_equal")


def number(var: Variable) -> Variable:
    """The variable, which reckons as a number from now on."""
    var.__class__ = Number
    return var


def constant(value: Any, dtype: Any = None, shape: Sequence[int] = (1,)) -> Variable:
    """A number of Python's as a variable; its own type unless one is given."""
    if dtype is None:
        dtype = number_type(value)
    made = fill_constant(shape=list(shape), dtype=dtype, value=value)
    return number(made) if tuple(shape) == (1,) else made


def number_type(*numbers: Any) -> VarType:
    """The element type of a variable that may hold any of these numbers."""
    kinds = {type(one) for one in numbers}
    if float in kinds:
        return VarType.FP32
    return VarType.BOOL if kinds == {bool} else VarType.INT64


def copied_number(value: Variable) -> Variable:
    """A variable of its own with the same value, a number where `value` is one."""
    made = assign(value)
    return number(made) if isinstance(value, Number) else made


def _kind(own: VarType, other: Any, *, divides: bool) -> VarType:
    if isinstance(other, Variable):
        kind = other.dtype if other.dtype in FLOATING else own
    else:
        kind = VarType.FP32 if isinstance(other, float) and own not in FLOATING else own
    if kind not in FLOATING and divides:
        return VarType.FP32
    return VarType.INT64 if kind == VarType.BOOL else kind


def _as(var: Variable, dtype: VarType) -> Variable:
    return var if var.dtype == dtype else arithmetic.cast(var, dtype)
