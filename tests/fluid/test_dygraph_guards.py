"""`dygraph.guard`, entered in each of the ways that scripts have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
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
        for build in (fluid.layers.relu, lambda one: x + one, fluid.layers.Print, _by_python):
            with pytest.raises(TypeError, match="is a value of dygraph: feed it"):
                build(value)
        with pytest.raises(ValueError, match="not found"):
            fluid.default_main_program().global_block().append_op("relu", {"X": "y"}, {"Out": x})


def _by_python(value: Any) -> Any:
    """By an operator that asks nothing of its inputs while it is built."""
    out = fluid.default_main_program().global_block().create_var(shape=[2, 3], dtype="float32")
    return fluid.layers.py_func(lambda one: one, value, out)


def test_a_layer_of_dygraph_is_no_part_of_a_program() -> None:
    with dygraph.guard():
        layer = dygraph.NCE(10, 4)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, label = fluid.data("x", [2, 4]), fluid.data("label", [2, 1], "int64")
        with pytest.raises(TypeError, match="operator nce is built into a program here"):
            layer(x, label)


def test_a_loss_of_dygraph_has_no_backward_pass_in_a_program() -> None:
    with dygraph.guard():
        loss = dygraph.to_variable(np.ones([1], "float32"))
    calls: list[Any] = [
        fluid.backward.append_backward,
        fluid.optimizer.SGD(0.1).minimize,
        lambda one: fluid.gradients(one, one),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="is a value of dygraph: call minimize"):
            call(loss)


@pytest.mark.parametrize("times", [0, 4])  # calls that come again are kept, and run otherwise
def test_data_within_the_guard_has_no_value(times: int) -> None:
    with dygraph.guard():
        for _ in range(times):
            fluid.layers.relu(dygraph.to_variable(np.ones([2, 3], "float32")))
        x = fluid.data("x", [2, 3])
        with pytest.raises(EnforceNotMet, match="Input Variable x is not initialized") as error:
            fluid.layers.relu(x)
    assert "to_variable" in str(error.value)
    assert "test_dygraph_guards.py" in str(error.value)
