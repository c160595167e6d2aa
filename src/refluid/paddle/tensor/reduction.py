"""Sums, means, extremes and their like over dimensions.

A result of one element has shape (1,), as in Fluid and in Paddle 2.0 to 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.functions.math.reduction import reduction_attributes
from refluid.ir.variable import Variable
from refluid.paddle.tensor.making import cast_to, dimension, is_floating, rank_of

Axis = int | Sequence[int] | None


def _reduced(
    op_type: str,
    x: Variable,
    axis: Axis,
    keepdim: bool,
    name: str | None,
    dtype: VarType | None = None,
) -> Variable:
    attrs = reduction_attributes(x, _plain(axis), keepdim)
    return op(op_type, {"X": x}, attrs, name=name, dtype=dtype)


def _plain(axis: Any) -> Any:
    if isinstance(axis, Variable):
        raise NotImplementedError("refluid takes the axis of a reduction as numbers only")
    return axis if axis is None or isinstance(axis, int) else list(axis)


_WIDENED = (VarType.BOOL, VarType.INT32)


def sum(
    x: Variable,
    axis: Axis = None,
    dtype: Any = None,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """The sum; of bool and int32 in int64."""
    if dtype is not None:
        x = cast_to(x, dtype)
    elif as_dtype(x.dtype) in _WIDENED:
        x = cast_to(x, VarType.INT64)
    return _reduced("reduce_sum", x, axis, keepdim, name)


def mean(
    x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The mean."""
    if axis is None and not keepdim:
        return op("mean", {"X": x}, name=name)
    return _reduced("reduce_mean", x, axis, keepdim, name)


def max(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The greatest; equal ones all have the gradient."""
    return _reduced("reduce_max", x, axis, keepdim, name)


def min(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The smallest; equal ones all have the gradient."""
    return _reduced("reduce_min", x, axis, keepdim, name)


def amax(
    x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The greatest; equal ones share the gradient."""
    return _shared(max(x, axis, True), x, axis, keepdim, name)


def amin(
    x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The smallest; equal ones share the gradient."""
    return _shared(min(x, axis, True), x, axis, keepdim, name)


def _shared(
    extreme: Variable, x: Variable, axis: Axis, keepdim: bool, name: str | None
) -> Variable:
    """The mean of all elements that equal the extreme: the extreme, but for its gradient."""
    extreme.stop_gradient = True
    equal = cast_to(op("equal", {"X": x, "Y": extreme}, dtype=VarType.BOOL), x.dtype)
    equal.stop_gradient = True
    chosen = op("elementwise_mul", {"X": x, "Y": equal})
    total, count = sum(chosen, axis, None, keepdim), sum(equal, axis, None, keepdim)
    return op("elementwise_div", {"X": total, "Y": count}, name=name)


def prod(
    x: Variable,
    axis: Axis = None,
    keepdim: bool = False,
    dtype: Any = None,
    name: str | None = None,
) -> Variable:
    """The product."""
    x = x if dtype is None else cast_to(x, dtype)
    return _reduced("reduce_prod", x, axis, keepdim, name)


def all(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Whether all are true."""
    return _reduced("reduce_all", _true(x), axis, keepdim, name, VarType.BOOL)


def any(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Whether one is true."""
    return _reduced("reduce_any", _true(x), axis, keepdim, name, VarType.BOOL)


def _true(x: Variable) -> Variable:
    return cast_to(x, VarType.BOOL)


def logsumexp(
    x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """Logarithm of the sum of exp(x), computed from the greatest on."""
    top = max(x, axis, True)
    top.stop_gradient = True
    powers = op("exp", {"X": op("elementwise_sub", {"X": x, "Y": top})})
    total = op("log", {"X": sum(powers, axis, None, True)})
    found = op("elementwise_add", {"X": total, "Y": top})
    return found if keepdim else sum(found, _listed(x, axis), None, False, name)


def _listed(x: Variable, axis: Axis) -> list[int]:
    axes = [axis] if isinstance(axis, int) else list(axis or range(rank_of(x)))
    return [dimension(x, one) for one in axes]


def var(
    x: Variable,
    axis: Axis = None,
    unbiased: bool = True,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """The variance; unbiased: divided by one less than the number of elements."""
    centred = op("elementwise_sub", {"X": x, "Y": mean(x, _listed(x, axis), True)})
    squares = op("square", {"X": centred})
    if not unbiased:
        return mean(squares, _listed(x, axis), keepdim, name)
    total = sum(squares, axis, None, keepdim)
    count = sum(_ones(x), axis, None, keepdim)
    less = op("scale", {"X": count}, {"scale": 1.0, "bias": -1.0})
    return op("elementwise_div", {"X": total, "Y": less}, name=name)


def _ones(x: Variable) -> Variable:
    attrs = {"value": 1.0, "dtype": int(x.dtype)}
    made: Variable = op("fill_any_like", {"X": x}, attrs, dtype=x.dtype, stop_gradient=True)
    return made


def std(
    x: Variable,
    axis: Axis = None,
    unbiased: bool = True,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """The standard deviation."""
    return op("sqrt", {"X": var(x, axis, unbiased, keepdim)}, name=name)


def count_nonzero(
    x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """How many elements are not zero, int64."""
    return sum(cast_to(_true(x), VarType.INT64), axis, None, keepdim, name)


def nansum(
    x: Variable,
    axis: Axis = None,
    dtype: Any = None,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """The sum, nan counting as 0."""
    return sum(_numbers(x), axis, dtype, keepdim, name)


def nanmean(
    x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The mean of those that are numbers."""
    held = op(
        "logical_not", {"X": op("isnan_v2", {"X": x}, dtype=VarType.BOOL)}, dtype=VarType.BOOL
    )
    total, count = (
        sum(_numbers(x), axis, None, keepdim),
        sum(cast_to(held, x.dtype), axis, None, keepdim),
    )
    return op("elementwise_div", {"X": total, "Y": count}, name=name)


def _numbers(x: Variable) -> Variable:
    mask = op("isnan_v2", {"X": x}, dtype=VarType.BOOL)
    return op("fill_where", {"X": x, "Mask": mask}, {"value": 0.0}, dtype=x.dtype)


def median(
    x: Variable, axis: int | None = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The median; of an even number the mean of the two in the middle. Of integers as float32."""
    x = x if is_floating(x) else cast_to(x, VarType.FP32)
    if axis is not None:
        attrs = {"axis": dimension(x, axis), "keepdim": keepdim}
        return op("median", {"X": x}, attrs, name=name)
    flat = op("reshape2", {"X": x}, {"shape": [-1]})
    found = op("median", {"X": flat}, {"axis": 0, "keepdim": False}, name=name)
    return op("reshape2", {"X": found}, {"shape": [1] * rank_of(x)}) if keepdim else found


def cumsum(
    x: Variable, axis: int | None = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """Sums of the elements up to each one along `axis`; of all in one row where None."""
    x = x if dtype is None else cast_to(x, dtype)
    return op("cumsum", {"X": _row(x, axis)}, {"axis": -1 if axis is None else axis}, name=name)


def cumprod(
    x: Variable, dim: int | None = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """Products of the elements up to each one along `dim`; of all in one row where None."""
    x = x if dtype is None else cast_to(x, dtype)
    return op("cumprod", {"X": _row(x, dim)}, {"dim": -1 if dim is None else dim}, name=name)


def logcumsumexp(
    x: Variable, axis: int | None = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """Logarithms of the sums of exp(x) up to each element."""
    x = x if dtype is None else cast_to(x, dtype)
    attrs = {"axis": -1 if axis is None else axis}
    return op("logcumsumexp", {"X": _row(x, axis)}, attrs, name=name)


def cummax(
    x: Variable, axis: int | None = None, dtype: Any = "int64", name: str | None = None
) -> tuple[Variable, ...]:
    """The greatest element up to each one, and its position."""
    return _extremes("cummax", x, axis, dtype, name)


def cummin(
    x: Variable, axis: int | None = None, dtype: Any = "int64", name: str | None = None
) -> tuple[Variable, ...]:
    """The smallest element up to each one, and its position."""
    return _extremes("cummin", x, axis, dtype, name)


def _extremes(
    op_type: str, x: Variable, axis: int | None, dtype: Any, name: str | None
) -> tuple[Variable, ...]:
    kind = as_dtype(dtype)
    attrs = {"axis": -1 if axis is None else axis, "dtype": int(kind)}
    makes = {"Out": x.dtype, "Indices": kind}
    return op(op_type, {"X": _row(x, axis)}, attrs, makes, stop_gradient=("Indices",), name=name)


def _row(x: Variable, axis: int | None) -> Variable:
    """All elements in one row, where no axis is given."""
    return op("reshape2", {"X": x}, {"shape": [-1]}) if axis is None else x
