"""`dygraph.guard`, entered in each of the ways that scripts have."""

from __future__ import annotations

import numpy as np

from refluid import fluid
from refluid.fluid import dygraph


def test_a_guard_that_nobody_keeps_stays_in_force() -> None:
    former = fluid.default_main_program()
    dygraph.guard(fluid.CPUPlace()).__enter__()
    try:
        assert fluid.in_dygraph_mode() and fluid.default_main_program() is not former
        with dygraph.guard(fluid.CPUPlace()):
            assert fluid.in_dygraph_mode()
        assert dygraph.to_variable(np.ones(2, "float32")).numpy().sum() == 2
    finally:
        dygraph.base._in_force[-1].__exit__(None, None, None)
    assert not fluid.in_dygraph_mode() and fluid.default_main_program() is former
    assert dygraph.base._in_force == []


def test_a_guard_is_a_decorator_too() -> None:
    @dygraph.guard(fluid.CPUPlace())
    def summed(left: int) -> float:
        assert fluid.in_dygraph_mode()
        return float(dygraph.to_variable(np.ones(2, "float32")).numpy().sum()) + (
            summed(left - 1) if left else 0
        )

    assert summed(2) == 6
    assert not fluid.in_dygraph_mode()
