"""What libraries made for Fluid ask of variables and of `LayerHelper`."""

from __future__ import annotations

import numpy as np
import pytest

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


def test_a_program_that_reads_becomes_one_that_is_fed() -> None:
    """`_inference_optimize`, as PaddleSlim's Pantheon serves programs with."""
    main, startup, exe = fluid.Program(), fluid.Program(), fluid.Executor()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        reader = fluid.layers.py_reader(4, [(-1, 2)], ["float32"], name="reader")
        x = fluid.layers.read_file(reader)
        y = fluid.layers.dropout(x, 0.5)
        z = fluid.layers.relu(y)
    served, kept = main._inference_optimize(), main._inference_optimize(prune_read_op=False)
    assert [op.type for op in served.global_block().ops] == ["dropout", "relu"]
    assert "read" in [op.type for op in kept.global_block().ops]
    assert not served.global_block().has_var("reader")
    assert not main.global_block().ops[-2].attr("is_test")
    with fluid.scope_guard(fluid.Scope()):
        fed = np.full((3, 2), 2.0, "float32")
        assert exe.run(served, {x.name: fed}, [z])[0].tolist() == [[1.0, 1.0]] * 3
    cut = main._prune_with_input([y.name], [z])
    assert [op.type for op in cut.global_block().ops] == ["relu"]


def test_layer_helpers_of_users_fill_in_attributes() -> None:
    attr, named = fluid.ParamAttr(), fluid.ParamAttr("w", fluid.initializer.Normal())
    attr._set_default_bias_initializer()
    named._set_default_param_initializer()
    assert isinstance(attr.initializer, fluid.initializer.ConstantInitializer)
    assert isinstance(named.initializer, fluid.initializer.NormalInitializer)
    with pytest.raises(ValueError, match="initializer is not set"):
        fluid.ParamAttr()._set_default_initializer(None)
    block = fluid.Program().global_block()
    weight = block.create_parameter([2, 3], "float32", **named._to_kwargs())
    assert (weight.name, attr._to_kwargs(with_initializer=True)["initializer"]) == (
        "w",
        attr.initializer,
    )
    assert named.initializer._compute_fans(weight) == (2, 3)


def test_a_graphs_node_is_found_by_its_name() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        out = fluid.layers.relu(fluid.data("x", [None, 2]))
    graph = fluid.framework.IrGraph(fluid.core.Graph(main.desc))
    (op,) = graph.all_op_nodes()
    assert graph._find_node_by_name(op.outputs, out.name).name() == out.name
    with pytest.raises(AssertionError, match="no_such"):
        graph._find_node_by_name(op.outputs, "no_such")


def test_a_gradient_has_a_name() -> None:
    with fluid.dygraph.guard():
        x = fluid.dygraph.to_variable(np.ones(2, "float32"))
        assert x._grad_name() == f"{x.name}@GRAD"
