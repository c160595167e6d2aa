"""Variables that users make in blocks: their initializers, and where they come into being."""

from __future__ import annotations

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet

THREE = fluid.initializer.Constant(3.0)


def test_the_initializer_of_a_variable_is_appended() -> None:
    main = fluid.Program()
    block = main.global_block()
    options = {"shape": [2], "dtype": "float32", "persistable": True}
    block.create_var(name="state", initializer=THREE, **options)
    assert [op.type for op in block.ops] == ["fill_constant"]
    block.create_var(name="state", initializer=THREE, **options)
    assert [op.type for op in block.ops] == ["fill_constant"] * 2
    scope = fluid.core.Scope()
    with fluid.scope_guard(scope):
        fluid.Executor().run(main)
    assert np.array(scope.find_var("state").get_tensor()).tolist() == [3.0, 3.0]


def test_a_parameter_is_initialised_once() -> None:
    block = fluid.Program().global_block()
    for _ in range(2):
        block.create_parameter(name="w", shape=[2], dtype="float32", initializer=THREE)
    assert [op.type for op in block.ops] == ["fill_constant"]


def test_a_block_has_what_is_made_for_it_by_its_class() -> None:
    main = fluid.Program()
    block = main.global_block()
    with fluid.program_guard(main):
        master = fluid.framework.Parameter(block, shape=[2], dtype="float32", name="w.master")
        doubled = master * 2.0
        fluid.framework.Variable(block, name="held", shape=[2], dtype="float32", persistable=True)
        fluid.layers.assign(doubled, block.var("held"))
    assert block.all_parameters() == [master]
    scope = fluid.core.Scope()
    with fluid.scope_guard(scope):
        scope.var("w.master").get_tensor().set(np.float32([1, 2]), fluid.CPUPlace())
        fluid.Executor().run(main)
    assert np.array(scope.find_var("held").get_tensor()).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("trainable", [True, False])
def test_an_initialised_parameter_trains(trainable: bool) -> None:
    block = fluid.Program().global_block()
    options = {"shape": [2], "dtype": "float32", "initializer": THREE}
    parameter = block.create_parameter(name="w", trainable=trainable, **options)
    assert parameter.stop_gradient is not trainable
    assert block.create_var(name="state", **options).stop_gradient


def test_running_a_program_makes_its_persistable_variables() -> None:
    main = fluid.Program()
    block = main.global_block()
    block.create_var(name="state", shape=[2], dtype="float32", persistable=True)
    block.create_var(name="other", shape=[2], dtype="float32")
    scope = fluid.core.Scope()
    with fluid.scope_guard(scope):
        fluid.Executor().run(main)
        assert scope.find_var("other") is None
        tensor = scope.find_var("state").get_tensor()
        assert not tensor._is_initialized()
        with pytest.raises(EnforceNotMet, match="state has not been initialized"):
            fluid.Executor().run(main, fetch_list=["state"])
        tensor.set(np.ones(2, "float32"), fluid.CPUPlace())
        (found,) = fluid.Executor().run(main, fetch_list=["state"])
    assert found.tolist() == [1.0, 1.0]


def test_a_variable_knows_what_wrote_it_last() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [None, 2])
        hidden = fluid.layers.softmax(x)
        assert x.op is None
        assert hidden.op.type == "softmax"
        fluid.layers.assign(x, hidden)
        assert hidden.op is main.global_block().ops[-1]
    assert main.clone(for_test=True).global_block().var(hidden.name).op.type == "assign"
    with fluid.dygraph.guard():
        assert not hasattr(fluid.dygraph.to_variable(np.ones(2)), "op")
