"""Variables full of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from refluid.build import at_once, op
from refluid.build.constants import assign_value
from refluid.core.dtypes import VarType, as_dtype, to_numpy, to_torch
from refluid.core.values import LoDTensor
from refluid.eager import VarBase, mode
from refluid.fluid.functions.tensor import creation as fluid
from refluid.fluid.functions.tensor.assignment import assign as fluid_assign
from refluid.fluid.functions.tensor.tensor_lists import Sizes
from refluid.ir.variable import Variable
from refluid.paddle.framework.devices import as_place
from refluid.paddle.framework.dtypes import type_of, usual
from refluid.paddle.tensor.making import as_variable, cast_to, number_of


def to_tensor(
    data: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True
) -> Variable:
    """A variable with these numbers: a number, lists of them, an array or a variable.

    dtype: theirs where None; floats of Python's have the default one. In a program it is a
    constant of the program.
    """
    if isinstance(data, Variable):
        return data if dtype is None else cast_to(data, dtype)
    if isinstance(data, LoDTensor):
        data = np.asarray(data)
    kind = type_of(data) if dtype is None else as_dtype(dtype)
    array = np.asarray(data)
    if array.dtype == object:
        raise ValueError("to_tensor: the numbers of a list have to be of one shape")
    array = array if array.ndim else array.reshape(1)
    now = mode.current()
    if now is None:
        stored = array if array.dtype.name in _STORED else array.astype(to_numpy(kind))
        constant = cast_to(assign_value(stored), kind)
        constant.stop_gradient = stop_gradient
        return constant
    device = now.device if place is None else as_place(place).device
    tensor = torch.tensor(array).to(device, to_torch(kind))
    made = VarBase(tensor)
    made.stop_gradient = stop_gradient
    return made


_STORED = {"bool", "float16", "float32", "float64", "int32", "int64"}


def _sizes(shape: Any) -> Any:
    if isinstance(shape, Variable):
        return shape
    listed = [shape] if isinstance(shape, int) else list(shape)
    return [number_of(one) for one in listed]


def full(shape: Sizes, fill_value: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable of a shape, full of one number."""
    return fluid.fill_constant(_sizes(shape), usual(dtype), number_of(fill_value))


def zeros(shape: Sizes, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable of a shape, full of 0."""
    return fluid.fill_constant(_sizes(shape), usual(dtype), 0.0)


def ones(shape: Sizes, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable of a shape, full of 1."""
    return fluid.fill_constant(_sizes(shape), usual(dtype), 1.0)


def empty(shape: Sizes, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable of a shape; what is in it is not said (it is 0)."""
    return zeros(shape, dtype)


def full_like(x: Variable, fill_value: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable of the shape of x, full of one number."""
    kind = as_dtype(x.dtype if dtype is None else dtype)
    attrs = {"value": float(fill_value), "dtype": int(kind)}
    return op("fill_any_like", {"X": x}, attrs, dtype=kind, name=name, stop_gradient=True)


def zeros_like(x: Variable, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable of the shape of x, full of 0."""
    return full_like(x, 0.0, dtype, name)


def ones_like(x: Variable, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable of the shape of x, full of 1."""
    return full_like(x, 1.0, dtype, name)


def empty_like(x: Variable, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable of the shape of x; what is in it is not said (it is 0)."""
    return zeros_like(x, dtype, name)


def arange(
    start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, name: str | None = None
) -> Variable:
    """Numbers from `start` up to, not including, `end`; from 0 up to `start` without an `end`."""
    if end is None:
        start, end = 0, start
    given = [start, end, step]
    if dtype is None:
        kinds = [one.dtype for one in given if isinstance(one, Variable)]
        floats = any(isinstance(one, float) for one in given)
        dtype = kinds[0] if kinds else (usual(None) if floats else VarType.INT64)
    if as_dtype(dtype) == VarType.FP32 and all(isinstance(one, int | float) for one in given):
        # How many there are follows from the numbers given, not from their nearest float32.
        return cast_to(fluid.range(float(start), float(end), float(step), "float64"), dtype)
    return fluid.range(start, end, step, dtype)


def linspace(
    start: Any, stop: Any, num: Any, dtype: Any = None, name: str | None = None
) -> Variable:
    """`num` numbers from `start` to `stop`, equally far apart."""
    return fluid.linspace(start, stop, num, usual(dtype))


def logspace(
    start: Any, stop: Any, num: Any, base: Any = 10.0, dtype: Any = None, name: str | None = None
) -> Variable:
    """`base` to the powers of `num` numbers from `start` to `stop`."""
    powers = fluid.linspace(start, stop, num, usual(dtype))
    base = as_variable(base if isinstance(base, Variable) else [float(base)])
    inputs = {"X": cast_to(base, powers.dtype), "Y": powers}
    return op("elementwise_pow", inputs, name=name)


def eye(
    num_rows: int, num_columns: int | None = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """A matrix with 1 on the diagonal."""
    return fluid.eye(num_rows, num_columns, dtype=usual(dtype))


def diag(
    x: Variable, offset: int = 0, padding_value: float = 0, name: str | None = None
) -> Variable:
    """A matrix with a vector as its diagonal, or the diagonal of a matrix."""
    attrs = {"offset": offset, "padding_value": float(padding_value)}
    return op("diag_v2", {"X": x}, attrs, name=name)


def diagflat(x: Variable, offset: int = 0, name: str | None = None) -> Variable:
    """A matrix with all elements of x as its diagonal."""
    return diag(op("reshape2", {"X": x}, {"shape": [-1]}), offset, 0, name)


def diagonal(
    x: Variable, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None
) -> Variable:
    """The diagonals of the planes of two axes."""
    attrs = {"offset": offset, "axis1": axis1, "axis2": axis2}
    return op("diagonal", {"Input": x}, attrs, name=name)


def tril(x: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The lower triangle, up to a diagonal; 0 elsewhere."""
    return op("tril_triu", {"X": x}, {"diagonal": diagonal, "lower": True}, name=name)


def triu(x: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The upper triangle, from a diagonal on; 0 elsewhere."""
    return op("tril_triu", {"X": x}, {"diagonal": diagonal, "lower": False}, name=name)


def tril_indices(row: int, col: int, offset: int = 0, dtype: Any = "int64") -> Variable:
    """Rows and columns of the elements of a lower triangle, (2, n)."""
    return _indices(np.tril_indices(row, offset, col), dtype)


def triu_indices(
    row: int, col: int | None = None, offset: int = 0, dtype: Any = "int64"
) -> Variable:
    """Rows and columns of the elements of an upper triangle, (2, n)."""
    return _indices(np.triu_indices(row, offset, row if col is None else col), dtype)


def _indices(found: Any, dtype: Any) -> Variable:
    return to_tensor(np.stack(found).astype(to_numpy(as_dtype(dtype))))


def meshgrid(*args: Any, **kwargs: Any) -> list[Variable]:
    """Vectors spread over all dimensions: variable i varies along dimension i only."""
    given = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
    listed = list(given)
    makes = {"Out": [one.dtype for one in listed]}
    found: list[Variable] = op("meshgrid", {"X": listed}, None, makes)[0]
    return found


def assign(x: Any, output: Variable | None = None) -> Variable:
    """A copy: of a variable, an array or numbers; into `output` where that is given."""
    if not isinstance(x, Variable | np.ndarray):
        x = np.asarray(x)
        x = x.astype("float32") if x.dtype == np.float64 else x
    if isinstance(x, np.ndarray) and at_once() and output is None:
        return to_tensor(x)
    return fluid_assign(x, output)


def clone(x: Variable, name: str | None = None) -> Variable:
    """A copy that gradients pass."""
    return op("assign", {"X": x}, name=name)


def numel(x: Variable, name: str | None = None) -> Variable:
    """The number of elements, int64 of shape (1,)."""
    return op("size", {"Input": x}, dtype=VarType.INT64, name=name)
