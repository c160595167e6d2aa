"""`and`, `or`, `not` and conditions: in Python where values are known, else in the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refluid.core.dtypes import VarType
from refluid.fluid.dygraph.translation.numbers import constant
from refluid.fluid.dygraph.translation.values import is_tensor, static
from refluid.fluid.functions.math.elementwise import logical_and, logical_not, logical_or
from refluid.fluid.functions.tensor.assignment import cast
from refluid.ir.variable import Variable


def as_bool(value: Any) -> Variable:
    """A tensor of truth values."""
    value = static(value)
    if not is_tensor(value):
        return constant(bool(value))
    found: Variable = value
    return found if found.dtype == VarType.BOOL else cast(found, "bool")


def scalar(value: Any) -> Any:
    """A condition: Python's, or a tensor of one truth value. ValueError for one of several."""
    value = static(value)
    if not is_tensor(value):
        return value
    size = 1
    for one in value.shape:
        size *= one
    if size not in (1, -1) and size > 1:
        raise ValueError(
            f"a condition must be one truth value, and this tensor has shape "
            f"{list(value.shape)}; reduce it first, by layers.reduce_all or layers.reduce_any"
        )
    return as_bool(value)


def both(first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """`first and second`."""
    one = static(first())
    if not is_tensor(one):
        return one and second()
    return logical_and(as_bool(one), as_bool(second()))


def either(first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """`first or second`."""
    one = static(first())
    if not is_tensor(one):
        return one or second()
    return logical_or(as_bool(one), as_bool(second()))


def opposite(value: Any) -> Any:
    """`not value`."""
    value = static(value)
    return logical_not(as_bool(value)) if is_tensor(value) else not value
