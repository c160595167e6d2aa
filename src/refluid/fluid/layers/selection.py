"""Which elements: topk, argmax, argmin, argsort, where, unique counts."""

from __future__ import annotations

from typing import Any

from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def topk(input: Variable, k: int | Variable, name: str | None = None) -> tuple[Variable, Variable]:
    """The `k` greatest elements along the last dimension, in order, and their positions (int64).

    k: a number or a variable of shape (1,).
    """
    helper = LayerHelper("top_k", name=name)
    inputs, attrs = {"X": [input]}, {}
    if isinstance(k, Variable):
        inputs["K"] = [k]
    else:
        attrs["k"] = k
    values = helper.create_variable_for_type_inference(input.dtype)
    indices = helper.create_variable_for_type_inference(VarType.INT64)
    helper.emit("top_k", inputs, attrs, out=values, more={"Indices": [indices]})
    values.stop_gradient = indices.stop_gradient = True
    return values, indices


def argmax(x: Variable, axis: int = 0) -> Variable:
    """Position of the maximum along `axis`, int64."""
    return _extreme("arg_max", x, axis)


def argmin(x: Variable, axis: int = 0) -> Variable:
    """Position of the minimum along `axis`, int64."""
    return _extreme("arg_min", x, axis)


def _extreme(op_type: str, x: Variable, axis: int) -> Variable:
    return LayerHelper(op_type).emit(op_type, {"X": x}, {"axis": axis}, dtype=VarType.INT64)


def argsort(
    input: Variable, axis: int = -1, descending: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """The elements in order along `axis`, and where they were (int64)."""
    helper = LayerHelper("argsort", name=name)
    out = helper.create_variable_for_type_inference(input.dtype, stop_gradient=True)
    ids = helper.create_variable_for_type_inference(VarType.INT64, stop_gradient=True)
    attrs: dict[str, Any] = {"axis": axis, "descending": descending}
    helper.emit("argsort", {"X": input}, attrs, out=out, more={"Indices": ids})
    return out, ids


def where(condition: Variable) -> Variable:
    """Coordinates of the true elements, int64 of shape (number of them, rank)."""
    helper = LayerHelper("where_index")
    return helper.emit(
        "where_index", {"Condition": condition}, dtype=VarType.INT64, stop_gradient=True
    )
