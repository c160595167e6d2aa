"""Distinct elements."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.core.dtypes import as_dtype
from refluid.ir.variable import Variable


def unique(
    x: Variable,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """The distinct elements in order, or distinct parts along `axis`.

    Then, as asked for: where each occurs first, for each of x its place among them, the counts.
    """
    kind = as_dtype(dtype)
    makes = {"Out": x.dtype, "Indices": kind, "Index": kind, "Counts": kind}
    attrs = {"axis": [] if axis is None else [axis], "dtype": int(kind)}
    found = op("sorted_unique", {"X": x}, attrs, makes, stop_gradient=True, name=name)
    asked = [True, return_index, return_inverse, return_counts]
    chosen = [one for one, wanted in zip(found, asked, strict=True) if wanted]
    return chosen[0] if len(chosen) == 1 else tuple(chosen)


def unique_consecutive(
    x: Variable,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """x without elements equal to the one before; then places and lengths of runs, as asked."""
    kind = as_dtype(dtype)
    makes = {"Out": x.dtype, "Index": kind, "Counts": kind}
    attrs = {"axis": [] if axis is None else [axis], "dtype": int(kind)}
    found = op("unique_consecutive", {"X": x}, attrs, makes, stop_gradient=True, name=name)
    asked = [True, return_inverse, return_counts]
    chosen = [one for one, wanted in zip(found, asked, strict=True) if wanted]
    return chosen[0] if len(chosen) == 1 else tuple(chosen)
