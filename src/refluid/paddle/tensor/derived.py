"""Functions that are made of others, or of an operator of their own."""

from __future__ import annotations

import itertools
import math as numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable
from refluid.paddle.tensor import creation, logic, manipulation, math, reduction, search
from refluid.paddle.tensor.making import as_variable, cast_to, dimension, rank_of


def hypot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """sqrt(x² + y²)."""
    return math.sqrt(math.add(math.square(x), math.square(y)), name)


def ldexp(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """x * 2 ** y, in floating-point numbers."""
    floating = x.dtype if x.dtype in (VarType.FP32, VarType.FP64) else VarType.FP32
    two = math.scale(cast_to(y, floating), 0.0, 2.0)
    return math.multiply(cast_to(x, floating), math.pow(two, cast_to(y, floating)))


def multigammaln(x: Variable, p: int, name: str | None = None) -> Variable:
    """The logarithm of the multivariate gamma function of dimension p."""
    assert p >= 1, "The p must be greater than or equal to 1, But received p is less than 1."
    total = math.scale(x, 0.0, 0.25 * p * (p - 1) * numbers.log(numbers.pi))
    for one in range(p):
        total = math.add(total, math.lgamma(math.scale(x, 1.0, -0.5 * one)))
    return total


def polygamma(x: Variable, n: int, name: str | None = None) -> Variable:
    """The n-th derivative of the digamma function."""
    if not isinstance(n, int):
        raise TypeError("The input of n must be int type, but received: " + type(n).__name__)
    if n < 0:
        raise ValueError(f"The input of n must be greater than or equal to 0. But received n={n}")
    return math.digamma(x) if n == 0 else op("polygamma", {"X": x}, {"n": n}, name=name)


def nextafter(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The next number after x towards y."""
    return op("nextafter", {"X": x, "Y": y}, name=name)


def frexp(x: Variable, name: str | None = None) -> tuple[Variable, Variable]:
    """(mantissas between 0.5 and 1, powers of 2)."""
    mantissa, exponent = op("frexp", {"X": x}, None, ("Mantissa", "Exponent"), name=name)
    return mantissa, exponent


# -- shapes ---------------------------------------------------------------------------------------


def _at_least(rank: int) -> Callable[..., Any]:
    def function(*inputs: Any, name: str | None = None) -> Any:
        found = []
        for one in inputs:
            x = one if isinstance(one, Variable) else creation.to_tensor(one)
            own = rank_of(x)
            if own == 0:
                x = manipulation.reshape(x, [1] * rank)
            elif rank == 2 and own == 1:
                x = manipulation.unsqueeze(x, 0)
            elif rank == 3 and own < 3:
                x = manipulation.unsqueeze(x, {1: [0, 2], 2: [2]}[own])
            found.append(x)
        return found[0] if len(found) == 1 else found

    function.__name__ = function.__qualname__ = f"atleast_{rank}d"
    function.__doc__ = f"Variables of at least {rank} dimensions."
    return function


atleast_1d, atleast_2d, atleast_3d = map(_at_least, (1, 2, 3))


def unflatten(x: Variable, axis: int, shape: Any, name: str | None = None) -> Variable:
    """x with one dimension taken apart."""
    place = dimension(x, axis)
    sizes = list(shape) if not isinstance(shape, Variable) else shape.numpy().tolist()
    return manipulation.reshape(x, [*x.shape[:place], *sizes, *x.shape[place + 1 :]])


def view_as(x: Variable, other: Variable, name: str | None = None) -> Variable:
    """x in the shape of another."""
    return manipulation.reshape(x, list(other.shape))


def reverse(x: Variable, axis: Any, name: str | None = None) -> Variable:
    """x backwards along dimensions."""
    return manipulation.flip(x, axis, name)


def vsplit(x: Variable, num_or_sections: Any, name: str | None = None) -> list[Variable]:
    """Parts of x along its first dimension. ValueError for fewer than two dimensions."""
    if rank_of(x) < 2:
        raise ValueError(
            f"The input tensor's dimension must be greater than 1, but got {rank_of(x)}"
        )
    return manipulation.split(x, num_or_sections, 0)


def unfold(x: Variable, axis: int, size: int, step: int, name: str | None = None) -> Variable:
    """Windows of so many elements along a dimension, as another dimension at the end."""
    attrs = {"axis": dimension(x, axis), "size": size, "step": step}
    return op("tensor_unfold", {"X": x}, attrs, name=name)


def as_strided(
    x: Variable,
    shape: Sequence[int],
    stride: Sequence[int],
    offset: int = 0,
    name: str | None = None,
) -> Variable:
    """Elements of x in its order, by strides in elements; offset is in elements too."""
    attrs = {"dims": list(shape), "stride": list(stride), "offset": offset}
    return op("as_strided", {"X": x}, attrs, name=name)


# -- differences and sums -------------------------------------------------------------------------


def _part(x: Variable, axis: int, start: int | None, stop: int | None) -> Variable:
    found: Variable = x[(*[slice(None)] * axis, slice(start, stop))]
    return found


def diff(
    x: Variable,
    n: int = 1,
    axis: int = -1,
    prepend: Variable | None = None,
    append: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Differences of neighbours along a dimension, n times over. ValueError for n below 1."""
    if n < 1:
        raise ValueError(f"Diff expects input to be at least one-dimensional but got n={n}")
    place = dimension(x, axis)
    parts = [one for one in (prepend, x, append) if one is not None]
    whole = manipulation.concat(parts, place) if len(parts) > 1 else x
    for _ in range(n):
        first, second = _part(whole, place, None, -1), _part(whole, place, 1, None)
        is_truth = whole.dtype == VarType.BOOL
        whole = logic.logical_xor(second, first) if is_truth else math.subtract(second, first)
    return whole


def _areas(y: Variable, x: Variable | None, dx: float | None, axis: int) -> tuple[Variable, int]:
    if x is not None and dx is not None:
        raise ValueError("Not permitted to specify both x and dx input args.")
    place = dimension(y, axis)
    both = math.add(_part(y, place, 1, None), _part(y, place, None, -1))
    if x is None:
        return math.scale(both, 0.5 * (1.0 if dx is None else float(dx))), place
    if rank_of(x) == 1 and rank_of(y) > 1:
        widths = manipulation.reshape(diff(x), [*[1] * place, -1, *[1] * (rank_of(y) - place - 1)])
    else:
        widths = diff(x, axis=axis)
    return math.scale(math.multiply(both, widths), 0.5), place


def trapezoid(
    y: Variable,
    x: Variable | None = None,
    dx: float | None = None,
    axis: int = -1,
    name: str | None = None,
) -> Variable:
    """The area under y along a dimension, at points x, or dx apart (1 by default)."""
    areas, place = _areas(y, x, dx, axis)
    return reduction.sum(areas, place)


def cumulative_trapezoid(
    y: Variable,
    x: Variable | None = None,
    dx: float | None = None,
    axis: int = -1,
    name: str | None = None,
) -> Variable:
    """The areas under y up to each point but the first; arguments as of `trapezoid`."""
    areas, place = _areas(y, x, dx, axis)
    return reduction.cumsum(areas, place)


def vander(
    x: Variable, n: int | None = None, increasing: bool = False, name: str | None = None
) -> Variable:
    """Powers of each element of a vector as columns, the highest first unless increasing."""
    count = int(x.shape[0]) if n is None else n
    if count < 0:
        raise ValueError("N must be non-negative.")
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    row = cast_to(as_variable(powers.reshape(1, -1).astype("float32")), x.dtype)
    return math.pow(manipulation.unsqueeze(x, 1), row)


def combinations(
    x: Variable, r: int = 2, with_replacement: bool = False, name: str | None = None
) -> Variable:
    """All choices of r elements of a vector, as rows; each element several times if replaced."""
    if rank_of(x) != 1:
        raise TypeError(f"Expect a 1-D vector, but got x shape {list(x.shape)}")
    if not isinstance(r, int) or r < 0:
        raise ValueError(f"Expect a non-negative int, but got r={r}")
    choose: Any = (
        itertools.combinations_with_replacement if with_replacement else itertools.combinations
    )
    chosen = np.array([*choose(range(int(x.shape[0])), r)], "int64")
    picked = search.index_select(x, as_variable(chosen.reshape(-1)))
    return manipulation.reshape(picked, list(chosen.shape))
