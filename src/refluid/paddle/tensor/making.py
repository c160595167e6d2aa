"""What functions of one operator are made of: tables of them, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from refluid.build import at_once, op
from refluid.build.arithmetic import both_complex
from refluid.build.constants import assign_value
from refluid.core.dtypes import FLOATING, VarType, as_dtype, dtype_name
from refluid.ir.variable import Variable
from refluid.paddle.tensor import methods


class OfOne(Protocol):
    """A function of one variable."""

    __name__: str

    def __call__(self, x: Any, name: str | None = None) -> Variable: ...


class OfTwo(Protocol):
    """A function of two variables, which broadcast from the last dimension."""

    __name__: str

    def __call__(self, x: Any, y: Any, name: str | None = None) -> Variable: ...


def named(made: Any, name: str, doc: str, module: str) -> Any:
    """A function that was made, under the name that users know."""
    made.__name__ = made.__qualname__ = name
    made.__doc__, made.__module__ = doc, module
    return made


def of_one(
    module: str, table: Mapping[str, tuple[str, str]], dtype: VarType | None = None
) -> dict[str, Any]:
    """Functions of one variable: name -> (operator, what it gives). dtype: of the results."""

    def make(op_type: str) -> Callable[..., Variable]:
        def function(x: Any, name: str | None = None) -> Variable:
            return op(op_type, {"X": x}, name=name, dtype=dtype)

        return function

    return {name: named(make(one), name, doc, module) for name, (one, doc) in table.items()}


def of_two(
    module: str,
    table: Mapping[str, tuple[str, str]],
    dtype: VarType | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Functions of two variables: name -> (operator, what it gives)."""

    def make(op_type: str) -> Callable[..., Variable]:
        def function(x: Any, y: Any, name: str | None = None) -> Variable:
            x, y = both(x, y)
            return op(op_type, {"X": x, "Y": y}, attrs, name=name, dtype=dtype)

        return function

    return {name: named(make(one), name, doc, module) for name, (one, doc) in table.items()}


def both(x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands, both complex if one is; a number of Python's has the other's type."""
    x, y = both_complex(x, y)
    if isinstance(y, bool | int | float | np.generic):
        return x, constant(y, x.dtype)
    if isinstance(x, bool | int | float | np.generic):
        return constant(x, y.dtype), y
    return x, y


def constant(value: Any, dtype: Any, shape: Sequence[int] = (1,)) -> Variable:
    """A variable full of one number."""
    attrs = {"shape": list(shape), "value": float(value), "dtype": int(as_dtype(dtype))}
    if as_dtype(dtype) == VarType.INT64:
        attrs["str_value"] = str(int(value))
    made: Variable = op("fill_constant", None, attrs, dtype=as_dtype(dtype), stop_gradient=True)
    return made


def as_variable(value: Any) -> Variable:
    """A variable as it is; anything else as a constant."""
    if isinstance(value, Variable):
        return value
    array = np.asarray(value)
    if array.dtype == np.float64 and not isinstance(value, np.ndarray | np.generic):
        array = array.astype("float32")
    return assign_value(array)


def rank_of(x: Variable) -> int:
    """The number of dimensions."""
    return len(x.shape)


def dimension(x: Variable, axis: int, extra: int = 0) -> int:
    """An axis counted from 0; ValueError where there is none. extra: dimensions that are added."""
    rank = rank_of(x) + extra
    if not -rank <= axis < rank:
        raise ValueError(
            f"(InvalidArgument) The axis is expected to be in range of [{-rank}, {rank}), but "
            f"got {axis}"
        )
    return axis % rank


def cast_to(x: Variable, dtype: Any) -> Variable:
    """The variable in another element type; itself where it has that."""
    kind = as_dtype(dtype)
    if as_dtype(x.dtype) == kind:
        return x
    attrs = {"in_dtype": int(x.dtype), "out_dtype": int(kind)}
    made: Variable = op("cast", {"X": x}, attrs, dtype=kind)
    return made


def is_floating(x: Variable) -> bool:
    """Whether the elements are floating-point numbers."""
    return as_dtype(x.dtype) in FLOATING


def require(x: Variable, kinds: Sequence[VarType], where: str) -> None:
    """TypeError where a variable's elements are of none of these types."""
    if as_dtype(x.dtype) not in kinds:
        listed = ", ".join(dtype_name(one) for one in kinds)
        raise TypeError(f"{where} takes {listed}, not {dtype_name(as_dtype(x.dtype))}")


def known(sizes: Sequence[Any]) -> bool:
    """Whether all sizes are numbers that are known."""
    return all(not isinstance(one, Variable) and int(one) >= 0 for one in sizes)


def number_of(value: Any) -> Any:
    """A number; of a variable that has its value that value."""
    if isinstance(value, Variable) and at_once():
        return value.numpy().item()
    return value


def sizes_of(given: Any) -> Any:
    """Sizes or axes; those of a variable that has its value as numbers."""
    if isinstance(given, Variable) and at_once():
        found = given.numpy().reshape(-1).tolist()
        return [int(one) for one in found]
    return given


methods.provide()
