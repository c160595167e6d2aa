"""Products of a time step's rows with a matrix that is the same in all steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refluid.ir.operator import Operator
from refluid.passes.time_steps.loop import Loop

_PLAIN: dict[str, Mapping[str, Any]] = {
    "mul": {"x_num_col_dims": 1, "y_num_col_dims": 1},
    "matmul": {"transpose_X": False, "transpose_Y": False, "alpha": 1.0},
}
# Of a product of all steps' rows, [time, batch, in]·[in, out].
ALL_STEPS = {"x_num_col_dims": 2, "y_num_col_dims": 1}
# Of one step's.
ONE_STEP = _PLAIN["mul"]


def is_product(loop: Loop, op: Operator) -> bool:
    """Whether it is X·Y with X [batch, in] and a Y [in, out] that all steps share."""
    plain = _PLAIN.get(op.type)
    return (
        plain is not None
        and all(op.attrs.get(name, value) == value for name, value in plain.items())
        and loop.is_invariant(op.input("Y")[0])
        and len(loop.shape(op.input("X")[0])) == len(loop.shape(op.input("Y")[0])) == 2
    )
