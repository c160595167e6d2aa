"""Products of a time step's rows with a matrix that is the same in all steps, and of each sample's
vector with a matrix of its own, as attention has them."""

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


# Where the one row of X, or the one column of Y, is in a product.
OUT_AXIS = {"X": -2, "Y": -1}


def vector_axis(op: Operator, slot: str) -> int:
    """The axis of size 1 of a factor that is a row, as X, or a column, as Y."""
    transposed = bool(op.attrs.get(f"transpose_{slot}"))
    return -3 - OUT_AXIS[slot] if transposed else OUT_AXIS[slot]


def is_product_of_vectors(loop: Loop, op: Operator, matrix: str) -> bool:
    """Whether it multiplies vectors of a step, one for each sample, with the matrices in this slot,
    which all steps share: attention's queries with what they ask."""
    if "transpose_X" not in facts_of(op.type).matrix_product:
        return False
    vector = "X" if matrix == "Y" else "Y"
    (name,), (other,) = op.input(vector), op.input(matrix)
    shape = loop.shape(name)
    ranks = {len(shape), len(loop.shape(other)), len(loop.shape(op.output("Out")[0]))}
    return (
        len(ranks) == 1
        and len(shape) > 2
        and shape[vector_axis(op, vector)] == 1
        and not loop.is_invariant(name)
    )
