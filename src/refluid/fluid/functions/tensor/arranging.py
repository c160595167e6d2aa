"""Elements chosen, moved and counted: index_select, roll, flip, unique, scatter_nd, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.build import op
from refluid.core.dtypes import VarType, as_dtype
from refluid.core.whole import is_whole
from refluid.fluid.functions.tensor.creation import zeros
from refluid.fluid.functions.tensor.shaping import reshape
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def index_select(input: Variable, index: Variable, dim: int = 0) -> Variable:
    """The slices of `input` along `dim` that `index`, (N,), names."""
    return op("index_select", {"X": input, "Index": index}, {"dim": dim})


def index_sample(x: Variable, index: Variable) -> Variable:
    """Row by row the elements of `x`, (N, M), that `index`, (N, K), names."""
    return op("index_sample", {"X": x, "Index": index})


def multiplex(inputs: Sequence[Variable], index: Variable) -> Variable:
    """Row i of that variable of `inputs` which index[i] names; index: int32 or int64 (N, 1).

    ValueError for fewer than two inputs.
    """
    if not isinstance(inputs, list | tuple) or len(inputs) < 2:
        raise ValueError("multiplex: inputs should be a list of at least 2 variables")
    helper = LayerHelper("multiplex", inputs=inputs)
    return op("multiplex", {"X": list(inputs), "Ids": index}, layer=helper)


def flip(input: Variable, dims: int | Sequence[int], name: str | None = None) -> Variable:
    """`input` back to front along `dims`."""
    axes = [dims] if is_whole(dims) else list(dims)
    return op("flip", {"X": input}, {"dims": axes}, name=name)


def roll(
    input: Variable, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None
) -> Variable:
    """`input` moved on by `shifts` along `dims`; what falls off at the end comes in again.

    dims None: as if it were flat. ValueError where the numbers of shifts and dims differ.
    """
    steps = [shifts] if is_whole(shifts) else list(shifts)
    axes = [dims] if is_whole(dims) else dims
    shape = input.shape
    if axes is not None and len(axes) != len(steps):
        raise ValueError(f"roll: {len(steps)} shifts but {len(axes)} dims")
    if axes is None:
        input = reshape(input, shape=[-1, 1])
    attrs = {"shifts": steps, "dims": [0] if axes is None else list(axes)}
    out = op("roll", {"X": input}, attrs)
    return reshape(out, shape=list(shape)) if axes is None else out


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Variable:
    """Matrices, in dimensions `dim1` and `dim2`, with the last dimension on a diagonal.

    ValueError for equal or impossible dimensions.
    """
    helper = LayerHelper("diag_embed")
    var = helper.to_variable(np.asarray(input) if isinstance(input, list | tuple) else input)
    rank = len(var.shape) + 1
    if not (-rank <= dim1 < rank and -rank <= dim2 < rank) or dim1 % rank == dim2 % rank:
        raise ValueError(
            f"diag_embed: dim1 {dim1} and dim2 {dim2} must be two of {rank} dimensions"
        )
    attrs = {"offset": offset, "dim1": dim1, "dim2": dim2}
    return op("diag_embed", {"Input": [var]}, attrs, layer=helper)


def meshgrid(input: Sequence[Variable], name: str | None = None) -> list[Variable]:
    """For vectors of sizes a, b, ... as many tensors of shape (a, b, ...), one growing along each.

    TypeError for an input that is no list of variables.
    """
    if not isinstance(input, list | tuple):
        raise TypeError(f"meshgrid takes a list of variables, not {type(input).__name__}")
    makes = {"Out": [var.dtype for var in list[Variable](input)]}
    return op("meshgrid", {"X": list(input)}, None, makes, name=name)[0]


def _distinct(op_type: str, x: Variable, dtype: Any, counted: bool) -> list[Variable]:
    kind = as_dtype(dtype)
    if kind not in (VarType.INT32, VarType.INT64):
        raise TypeError(f"{op_type}: dtype must be int32 or int64, not {dtype!r}")
    makes = {"Out": x.dtype, "Index": kind} | ({"Count": kind} if counted else {})
    return list(op(op_type, {"X": x}, {"dtype": int(kind)}, makes))


def unique(x: Variable, dtype: Any = "int32") -> tuple[Variable, ...]:
    """The distinct elements of `x`, (N,), in order of appearance; each element's place in them."""
    return tuple(_distinct("unique", x, dtype, False))


def unique_with_counts(x: Variable, dtype: Any = "int32") -> tuple[Variable, ...]:
    """`unique`, and how often each distinct element occurs."""
    if dtype not in ("int32", "int64"):
        raise TypeError(f"unique_with_counts: dtype must be int32 or int64, not {dtype!r}")
    return tuple(_distinct("unique_with_counts", x, dtype, True))


def scatter_nd_add(
    ref: Variable, index: Variable, updates: Variable, name: str | None = None
) -> Variable:
    """`ref` plus `updates` at the coordinates in the last dimension of `index`.

    ValueError where their element types differ.
    """
    if ref.dtype != updates.dtype:
        raise ValueError("scatter_nd_add: ref and updates must have the same data type")
    return op("scatter_nd_add", {"X": ref, "Index": index, "Updates": updates}, name=name)


def scatter_nd(
    index: Variable, updates: Variable, shape: Sequence[int], name: str | None = None
) -> Variable:
    """Zeros of `shape` plus `updates` at the coordinates in the last dimension of `index`."""
    return scatter_nd_add(zeros(shape, updates.dtype), index, updates, name)
