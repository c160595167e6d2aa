"""Rows with the same number reduced to one."""

from __future__ import annotations

from typing import Protocol

from refluid.build import op
from refluid.ir.variable import Variable


class _Segments(Protocol):
    def __call__(self, data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
        """One row for each number from 0 to the largest of `segment_ids`."""


def reduced(
    x: Variable, index: Variable, how: str, rows: int | Variable, name: str | None
) -> Variable:
    """Rows of x reduced to where `index` says.

    rows: how many there are, 0 for as many as it takes; or a variable that has as many.
    """
    like = rows if isinstance(rows, Variable) else None
    attrs = {"reduce": how, "rows": 0 if isinstance(rows, Variable) else rows}
    inputs = {"X": x, "Index": index, "Like": like}
    return op("segment_reduce", inputs, attrs, dtype=x.dtype, name=name)


def _segments(how: str, what: str) -> _Segments:
    def function(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
        return reduced(data, segment_ids, how, 0, name)

    function.__name__ = function.__qualname__ = f"segment_{how}"
    function.__doc__ = f"""{what} of the rows of `data` whose `segment_ids` are equal.

    Row n of the result is that of number n, 0 where nobody has it; it has one row more than the
    largest number says. Paddle 2.6.2 wants the numbers in order; here they may be in any.
    """
    return function


segment_sum = _segments("sum", "The sums")
segment_mean = _segments("mean", "The means")
segment_min = _segments("min", "The least elements")
segment_max = _segments("max", "The largest elements")
