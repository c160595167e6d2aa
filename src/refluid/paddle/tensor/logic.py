"""Comparisons and logic."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable
from refluid.paddle.tensor.making import OfTwo, of_two

_COMPARED = of_two(
    __name__,
    {
        "equal": ("equal", "Where x == y."),
        "greater_equal": ("greater_equal", "Where x >= y."),
        "greater_than": ("greater_than", "Where x > y."),
        "less_equal": ("less_equal", "Where x <= y."),
        "less_than": ("less_than", "Where x < y."),
        "not_equal": ("not_equal", "Where x != y."),
    },
    VarType.BOOL,
)

equal: OfTwo = _COMPARED["equal"]
greater_equal: OfTwo = _COMPARED["greater_equal"]
greater_than: OfTwo = _COMPARED["greater_than"]
less_equal: OfTwo = _COMPARED["less_equal"]
less_than: OfTwo = _COMPARED["less_than"]
not_equal: OfTwo = _COMPARED["not_equal"]


def _two(
    op_type: str, x: Any, y: Any, out: Variable | None, name: str | None, dtype: Any
) -> Variable:
    return op(op_type, {"X": x, "Y": y}, out=out, name=name, dtype=dtype)


def logical_and(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Where both hold."""
    return _two("logical_and", x, y, out, name, VarType.BOOL)


def logical_or(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Where one holds."""
    return _two("logical_or", x, y, out, name, VarType.BOOL)


def logical_xor(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Where just one holds."""
    return _two("logical_xor", x, y, out, name, VarType.BOOL)


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """Where it doesn't hold."""
    return op("logical_not", {"X": x}, out=out, name=name, dtype=VarType.BOOL)


def bitwise_and(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Bits that both have."""
    return _two("bitwise_and", x, y, out, name, None)


def bitwise_or(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Bits that one has."""
    return _two("bitwise_or", x, y, out, name, None)


def bitwise_xor(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Bits that just one has."""
    return _two("bitwise_xor", x, y, out, name, None)


def bitwise_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """Every bit turned."""
    return op("bitwise_not", {"X": x}, out=out, name=name)


def equal_all(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Whether all elements are equal, bool of shape (1,); of other shapes they are not."""
    shapes = [tuple(one.shape) for one in (x, y)]
    if shapes[0] != shapes[1] and not any(size < 0 for shape in shapes for size in shape):
        return op("fill_constant", None, _false(), dtype=VarType.BOOL)
    alike = op("equal", {"X": x, "Y": y}, dtype=VarType.BOOL)
    return op("reduce_all", {"X": alike}, {"reduce_all": True}, dtype=VarType.BOOL, name=name)


def _false() -> dict[str, Any]:
    return {"shape": [1], "value": 0.0, "dtype": int(VarType.BOOL)}


def allclose(
    x: Variable,
    y: Variable,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """Whether |x - y| <= atol + rtol * |y| everywhere, bool of shape (1,)."""
    attrs = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}
    return op("allclose", {"Input": x, "Other": y}, attrs, dtype=VarType.BOOL, name=name)


def isclose(
    x: Variable,
    y: Variable,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """Where |x - y| <= atol + rtol * |y|."""
    apart = op("abs", {"X": op("elementwise_sub", {"X": x, "Y": y})})
    size = op("abs", {"X": y})
    bound = op("scale", {"X": size}, {"scale": rtol, "bias": atol})
    near = op("less_equal", {"X": apart, "Y": bound}, dtype=VarType.BOOL)
    same = op("equal", {"X": x, "Y": y}, dtype=VarType.BOOL)
    found = logical_or(near, same)
    if not equal_nan:
        return found
    left, right = (op("isnan_v2", {"X": one}, dtype=VarType.BOOL) for one in (x, y))
    return logical_or(found, logical_and(left, right))


def is_tensor(x: Any) -> bool:
    """Whether it is a variable."""
    return isinstance(x, Variable)


def is_empty(x: Variable, name: str | None = None) -> Variable:
    """Whether it has no elements, bool of shape (1,)."""
    return op("is_empty", {"X": x}, dtype=VarType.BOOL, name=name)


def broadcast_shape(x_shape: Any, y_shape: Any) -> list[int]:
    """The shape that two shapes broadcast to."""
    return list(np.broadcast_shapes(tuple(x_shape), tuple(y_shape)))
