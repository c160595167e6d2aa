"""Products of a time step's rows with a matrix that is the same in all steps."""

from __future__ import annotations

from refluid.ir.operator import Operator
from refluid.ops.registry import facts_of
from refluid.passes.time_steps.loop import Loop

# Of a product of all steps' rows, [time, batch, in]·[in, out].
ALL_STEPS = {"x_num_col_dims": 2, "y_num_col_dims": 1}
# Of one step's.
ONE_STEP = {"x_num_col_dims": 1, "y_num_col_dims": 1}


def is_product(loop: Loop, op: Operator) -> bool:
    """Whether it is X·Y with X [batch, in] and a Y [in, out] that all steps share."""
    plain = facts_of(op.type).matrix_product
    return (
        bool(plain)
        and all(op.attrs.get(name, value) == value for name, value in plain.items())
        and loop.is_invariant(op.input("Y")[0])
        and len(loop.shape(op.input("X")[0])) == len(loop.shape(op.input("Y")[0])) == 2
    )
