"""What libraries made for Fluid ask of variables and of `LayerHelper`."""

from __future__ import annotations

import numpy as np

import refluid.fluid as fluid
from refluid.fluid.layer_helper import LayerHelper


def test_anything_can_be_kept_with_a_variable() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x, y = fluid.data("x", [None, 2]), fluid.data("y", [None, 2])
    x._set_info("shard", y)
    x._set_info("rows", 3)
    assert x._get_info("shard") is y
    assert (x._get_info("rows"), x._get_info("columns"), y._get_info("rows")) == (3, None, None)
    assert main.clone().global_block().var("x")._get_info("rows") is None


def test_a_parameter_without_attributes_is_one_by_default() -> None:
    main, startup, exe = fluid.Program(), fluid.Program(), fluid.Executor()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        helper = LayerHelper("own")
        bias = helper.create_parameter(attr=None, shape=[3], dtype="float32", is_bias=True)
        weight = helper.create_parameter(None, [2, 3], "float32")
        assert helper.create_parameter(False, [3], "float32", is_bias=True) is None
    assert (bias.name, weight.name) == ("own_0.b_0", "own_0.w_0")
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        found = exe.run(main, fetch_list=[bias, weight])
    assert found[0].tolist() == [0.0] * 3
    assert np.abs(found[1]).max() > 0


def test_a_parameter_is_given_an_initializer_for_its_attributes() -> None:
    with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()):
        helper = LayerHelper("own")
        scale = helper.create_parameter(fluid.initializer.Constant(2.0), [3], "float32")
        named = helper.create_parameter("mine", [3], "float32", is_bias=True)
        exe = fluid.Executor()
        with fluid.scope_guard(fluid.Scope()):
            exe.run(fluid.default_startup_program())
            found = exe.run(fetch_list=[scale, named])
    assert (scale.name, named.name) == ("own_0.w_0", "mine")
    assert [each.tolist() for each in found] == [[2.0] * 3, [0.0] * 3]
