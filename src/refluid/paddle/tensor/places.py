"""Places of variables read and written, and what depends on the order of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable
from refluid.paddle.tensor import logic, manipulation, math, search
from refluid.paddle.tensor.making import cast_to, constant, dimension, rank_of


def take(x: Variable, index: Variable, mode: str = "raise", name: str | None = None) -> Variable:
    """Elements by their places in x laid flat.

    mode: places beyond are an error (`raise`), begin anew (`wrap`), or are the last (`clip`).
    """
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(
            f"'mode' in 'take' should be 'raise', 'wrap', 'clip', but received {mode}."
        )
    size = int(np.prod(x.shape))
    flat, places = manipulation.reshape(x, [-1]), manipulation.reshape(index, [-1])
    if mode == "wrap":
        places = math.remainder(places, constant(size, places.dtype))
    elif mode == "clip":
        places = math.clip(places, 0, size - 1)
    else:
        below = logic.less_than(places, constant(0, places.dtype))
        places = search.where(below, math.scale(places, 1.0, float(size)), places)
    return manipulation.reshape(search.gather(flat, places), list(index.shape))


def index_put(
    x: Variable,
    indices: Sequence[Variable],
    value: Variable,
    accumulate: bool = False,
    name: str | None = None,
) -> Variable:
    """x with `value` at places, a variable for each dimension; or added there."""
    inputs = {"X": x, "Indices": list(indices), "Value": value}
    return op("index_put", inputs, {"accumulate": bool(accumulate)}, name=name)


def index_fill(
    x: Variable, index: Variable, axis: int, value: Any, name: str | None = None
) -> Variable:
    """x with a number at places along a dimension."""
    place = dimension(x, axis)
    sizes = [int(size) for size in x.shape]
    sizes[place] = int(index.shape[0])
    given = value if isinstance(value, Variable) else constant(value, x.dtype)
    order = [place, *(n for n in range(rank_of(x)) if n != place)]
    back = [order.index(n) for n in range(rank_of(x))]
    moved = manipulation.transpose(x, order)
    filled = cast_to(manipulation.expand(given, [sizes[n] for n in order]), x.dtype)
    return manipulation.transpose(index_put(moved, [index], filled), back)


def select_scatter(
    x: Variable, values: Variable, axis: int, index: int, name: str | None = None
) -> Variable:
    """x with `values` at one place along a dimension."""
    attrs = {"axis": dimension(x, axis), "index": index}
    return op("select_scatter", {"X": x, "Value": values}, attrs, name=name)


def diagonal_scatter(
    x: Variable,
    y: Variable,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    name: str | None = None,
) -> Variable:
    """x with y on a diagonal."""
    attrs = {"offset": offset, "axis1": axis1, "axis2": axis2}
    return op("diagonal_scatter", {"X": x, "Value": y}, attrs, name=name)


def renorm(x: Variable, p: float, axis: int, max_norm: float) -> Variable:
    """x with each part along a dimension scaled to a p-norm of at most max_norm."""
    attrs = {"p": float(p), "axis": dimension(x, axis), "max_norm": float(max_norm)}
    return op("renorm", {"X": x}, attrs)


def _quantiles(x: Variable, q: Any, axis: Any, keepdim: bool, ignore_nan: bool) -> Variable:
    several = isinstance(q, list | tuple)
    wanted = [float(one) for one in (q if several else [q])]
    if not wanted:
        raise ValueError("q should not be empty")
    if any(not 0 <= one <= 1 for one in wanted):
        raise ValueError("q should be in range [0, 1]")
    places = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    attrs = {
        "q": wanted,
        "axis": [dimension(x, one) for one in places],
        "keepdim": bool(keepdim),
        "ignore_nan": ignore_nan,
        "several": several,
    }
    return op("quantile", {"X": x}, attrs, dtype=VarType.FP64)


def quantile(x: Variable, q: Any, axis: Any = None, keepdim: bool = False) -> Variable:
    """Quantiles along dimensions, between neighbours by their distance, in float64.

    q: between 0 and 1, or several, which are a dimension in front; ValueError for others.
    """
    return _quantiles(x, q, axis, keepdim, False)


def nanquantile(x: Variable, q: Any, axis: Any = None, keepdim: bool = False) -> Variable:
    """As `quantile`, of the elements that are numbers."""
    return _quantiles(x, q, axis, keepdim, True)


def nanmedian(
    x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The median of the elements that are numbers; of an even count the mean of both."""
    return cast_to(_quantiles(x, 0.5, axis, keepdim, True), x.dtype)


def mode(
    x: Variable, axis: int = -1, keepdim: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """The most frequent element along a dimension, and where it is last."""
    attrs = {"axis": dimension(x, axis), "keepdim": bool(keepdim)}
    makes = {"Out": x.dtype, "Indices": VarType.INT64}
    values, places = op("mode", {"X": x}, attrs, makes, name=name)
    return values, places
