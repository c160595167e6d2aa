"""Counters: increment, and the step counter of learning-rate schedules."""

from __future__ import annotations

from refluid.build import apply, op
from refluid.core.dtypes import VarType
from refluid.fluid.initializer import Constant
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

STEP_COUNTER = "@STEP_COUNTER@"


def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """`x`, of shape (1,), plus `value`; `x` itself changes if `in_place`."""
    out = x if in_place else None
    return op("increment", {"X": [x]}, {"step": float(value)}, out=out)


def autoincreased_step_counter(
    counter_name: str | None = None, begin: int = 1, step: int = 1
) -> Variable:
    """An int64 variable of shape (1,): `begin` in the first run, `step` more in each other."""
    helper = LayerHelper("global_step_counter")
    counter, is_new = helper.create_or_get_global_variable(
        name=STEP_COUNTER if counter_name is None else counter_name,
        dtype=VarType.INT64,
        shape=[1],
        persistable=True,
        belong_to_optimizer=True,
    )
    if is_new:
        helper.set_variable_initializer(counter, Constant(begin - 1, force_cpu=True))
        block, attrs = helper.main_program.global_block(), {"step": float(step)}
        apply("increment", {"X": counter}, {"Out": counter}, attrs, block=block, index=0)
        counter.stop_gradient = True
    return counter
