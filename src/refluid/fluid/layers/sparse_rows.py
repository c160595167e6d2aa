"""Sparse gradients (SelectedRows) as values of a program."""

from __future__ import annotations

from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def merge_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """`x` with rows of the same number added up."""
    helper = LayerHelper("merge_selected_rows", name=name)
    return helper.emit("merge_selected_rows", {"X": x}, {})


def get_tensor_from_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """The rows that `x` holds, as a dense tensor of as many rows."""
    helper = LayerHelper("get_tensor_from_selected_rows", name=name)
    return helper.emit("get_tensor_from_selected_rows", {"X": x}, {})
