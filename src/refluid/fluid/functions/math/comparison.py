"""Comparisons, giving bool variables."""

from __future__ import annotations

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable


def _compare(
    op_type: str,
    x: Variable,
    y: Variable,
    cond: Variable | None,
    force_cpu: bool | None = None,
) -> Variable:
    inputs, attrs = {"X": [x], "Y": [y]}, {"force_cpu": force_cpu}
    out = op(op_type, inputs, attrs, dtype=VarType.BOOL, out=cond)
    out.stop_gradient = True
    return out


def less_than(
    x: Variable, y: Variable, force_cpu: bool | None = None, cond: Variable | None = None
) -> Variable:
    """x < y elementwise, written to `cond` if given."""
    return _compare("less_than", x, y, cond, force_cpu)


def less_equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """x <= y elementwise, written to `cond` if given."""
    return _compare("less_equal", x, y, cond)


def greater_than(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """x > y elementwise, written to `cond` if given."""
    return _compare("greater_than", x, y, cond)


def greater_equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """x >= y elementwise, written to `cond` if given."""
    return _compare("greater_equal", x, y, cond)


def equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """x == y elementwise, written to `cond` if given."""
    return _compare("equal", x, y, cond)


def not_equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """x != y elementwise, written to `cond` if given."""
    return _compare("not_equal", x, y, cond)


def elementwise_equal(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """x == y elementwise."""
    return op(
        "equal", {"X": [x], "Y": [y]}, dtype=VarType.BOOL, layer="elementwise_equal", name=name
    )
