"""`dygraph.guard`, entered in each of the ways that scripts have."""

from __future__ import annotations

import numpy as np
import pytest

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


@pytest.mark.parametrize("use", ["layer", "parameter", "sum"])
def test_a_programs_variable_within_the_guard_is_refused_in_words(use: str) -> None:
    """A layer that is made before the guard is one of the program's."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        layer = dygraph.Linear(3, 2)
        x, w = fluid.data("x", [2, 3]), fluid.layers.create_parameter([3, 2], "float32", "w")
        with dygraph.guard():
            value = dygraph.to_variable(np.ones([2, 3], "float32"))
            with pytest.raises(TypeError, match=r"'.*' belongs to a program .* within the guard"):
                if use == "layer":
                    layer(value)
                elif use == "parameter":
                    fluid.layers.matmul(value, w)
                else:
                    value + x


def test_a_value_of_dygraph_is_no_part_of_a_program() -> None:
    with dygraph.guard():
        value = dygraph.to_variable(np.ones([2, 3], "float32"))
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [2, 3])
        for build in (fluid.layers.relu, lambda one: x + one):
            with pytest.raises(TypeError, match="is a value of dygraph: feed it"):
                build(value)
        with pytest.raises(ValueError, match="not found"):
            fluid.default_main_program().global_block().append_op("relu", {"X": "y"}, {"Out": x})
