"""Sparse gradients (SelectedRows) as values of a program."""

from __future__ import annotations

from refluid.build import op
from refluid.ir.variable import Variable


def merge_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """`x` with rows of the same number added up."""
    return op("merge_selected_rows", {"X": x}, {}, name=name)


def get_tensor_from_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """The rows that `x` holds, as a dense tensor of as many rows."""
    return op("get_tensor_from_selected_rows", {"X": x}, {}, name=name)
