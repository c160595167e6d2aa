"""Which elements: topk, argmax, argmin, argsort, where, unique counts."""

from __future__ import annotations

from typing import Any

from refluid.build import How, op
from refluid.core.dtypes import VarType
from refluid.fluid.functions.tensor.slicing import slice
from refluid.ir.variable import Variable


def topk(input: Variable, k: int | Variable, name: str | None = None) -> tuple[Variable, Variable]:
    """The `k` greatest elements along the last dimension, in order, and their positions (int64).

    k: a number or a variable of shape (1,).
    """
    inputs, attrs = ({"K": k}, {}) if isinstance(k, Variable) else ({}, {"k": k})
    makes = {"Out": input.dtype, "Indices": VarType.INT64}
    how: How = {"stop_gradient": True, "name": name}
    values, indices = op("top_k", {"X": input} | inputs, attrs, makes, **how)
    return values, indices


def argmax(x: Variable, axis: int = 0) -> Variable:
    """Position of the maximum along `axis`, int64."""
    return _extreme("arg_max", x, axis)


def argmin(x: Variable, axis: int = 0) -> Variable:
    """Position of the minimum along `axis`, int64."""
    return _extreme("arg_min", x, axis)


def _extreme(op_type: str, x: Variable, axis: int) -> Variable:
    return op(op_type, {"X": x}, {"axis": axis}, dtype=VarType.INT64)


def argsort(
    input: Variable, axis: int = -1, descending: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """The elements in order along `axis`, and where they were (int64)."""
    attrs: dict[str, Any] = {"axis": axis, "descending": descending}
    makes = {"Out": input.dtype, "Indices": VarType.INT64}
    out, ids = op("argsort", {"X": input}, attrs, makes, stop_gradient=True, name=name)
    return out, ids


def where(condition: Variable) -> Variable:
    """Coordinates of the true elements, int64 of shape (number of them, rank)."""
    return op("where_index", {"Condition": condition}, dtype=VarType.INT64, stop_gradient=True)


def nonzero(input: Variable, as_tuple: bool = False) -> Variable | tuple[Variable, ...]:
    """Coordinates of the elements that are not zero, int64 (number, rank).

    as_tuple: one variable of shape (number, 1) per dimension instead.
    """
    rank = len(input.shape)
    found = where(input)
    if not as_tuple:
        return found
    if rank == 1:
        return (found,)
    return tuple(slice(found, axes=[1], starts=[i], ends=[i + 1]) for i in range(rank))
