"""Descriptions are views: what they change is the program's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.fluid import core


def _program() -> tuple[fluid.Program, fluid.Variable]:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.name_scope("a"):
        x = fluid.data("x", [None, 2])
        out = fluid.layers.scale(x, 2.0)
    return main, out


def test_an_operator_is_added_by_its_description() -> None:
    main, out = _program()
    block = main.global_block()
    change = main.change_count
    op = block.desc.append_op()
    op.set_type("scale")
    op.set_input("X", [out.name])
    op.set_output("Out", [out.name])
    op._set_attr("scale", 5.0)
    assert main.change_count > change
    assert block.desc.op_size() == 2
    assert block.desc.op(1).type() == "scale"
    exe = fluid.Executor(fluid.CPUPlace())
    found = exe.run(main, {"x": np.ones((1, 2), "float32")}, [out])[0]
    assert found.tolist() == [[10.0, 10.0]]


def test_shapes_follow_those_of_a_parameter_that_was_made_smaller() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        image = fluid.data("image", [None, 3, 8, 8])
        fluid.layers.conv2d(image, 6, 3, param_attr="filter", bias_attr=False, act="relu")
        steps = fluid.data("steps", [1])
        fluid.layers.while_loop(lambda x: fluid.layers.less_than(x, steps), lambda x: x, [steps])
    block = main.global_block()
    block.var("filter").desc.set_shape([2, 3, 3, 3])
    for op in block.ops:
        op.desc.infer_var_type(op.block.desc)
        op.desc.infer_shape(op.block.desc)
    results = [
        block.var(op.output("Output" if op.type == "conv2d" else "Out")[0])
        for op in block.ops
        if op.type in ("conv2d", "relu")
    ]
    assert [var.shape for var in results] == [(-1, 2, 6, 6)] * 2


def test_what_an_operator_has() -> None:
    main, out = _program()
    op = main.global_block().ops[0].desc
    assert (op.type(), op.input("X"), op.output_arg_names()) == ("scale", ["x"], [out.name])
    assert op.inputs()["X"] == ["x"]
    assert op.attr("op_namescope").startswith("/a")
    op.remove_attr("op_namescope")
    assert not op.has_attr("op_namescope")
    other = main.global_block().desc._prepend_op()
    other.copy_from(op)
    assert (other.type(), other.input("X"), other.attr("scale")) == ("scale", ["x"], 2.0)
    assert other.block().id == 0
    message = core.OpDesc(main.global_block().ops[0]).serialize_to_string()
    assert b"scale" in message


def test_a_variable_by_methods() -> None:
    main, out = _program()
    x = main.global_block().var("x").desc
    assert (x.shape(), x.need_check_feed(), x.persistable()) == ([-1, 2], True, False)
    x.set_shape([4, 2])
    x.set_need_check_feed(False)
    x.set_dtype(core.VarDesc.VarType.FP64)
    var = main.global_block().var("x")
    assert (var.shape, var.need_check_feed, str(x.dtype())) == ((4, 2), False, "VarType.FP64")
    x.set_name("y")
    assert main.global_block().ops[0].input("X") == ["y"]
    assert main.global_block().desc.find_var(b"y") is not None
    assert main.global_block().desc.find_var("x") is None
    assert main.global_block().desc.has_var(out.name)


def test_a_program_by_methods() -> None:
    main, _ = _program()
    desc = main.desc
    assert desc.num_blocks() == 1
    inner = desc.append_block(desc.block(0))
    assert (desc.num_blocks(), inner.parent, main.current_block_idx) == (2, 0, 0)
    assert desc.serialize_to_string() == main.serialize_to_string()
    assert inner.find_var("x") is None
    assert inner.find_var_recursive("x") is not None


def test_an_operator_is_made_of_a_description() -> None:
    main, out = _program()
    block = main.global_block()
    made = block.create_var(name="made", dtype="float32")
    desc = block.desc.append_op()
    with pytest.raises(ValueError, match="can not be None"):
        fluid.framework.Operator(block, desc)
    slots: dict[str, Any] = {"inputs": {"X": [out]}, "outputs": {"Out": made}}
    op = fluid.framework.Operator(block=block, desc=desc, type="scale", **slots)
    block.ops.append(op)
    copied = block.desc.append_op()
    copied.copy_from(op.desc)
    copied.set_input("X", ["made"])
    copied._set_attr("scale", 3.0)
    block.ops.append(fluid.framework.Operator(block, copied))
    assert isinstance(op, fluid.framework.Operator)
    assert [one.type for one in block.ops] == ["scale"] * 3
    assert (made.shape, op.attr("scale")) == ((-1, 2), 1.0)
    exe = fluid.Executor(fluid.CPUPlace())
    assert exe.run(main, {"x": np.ones((1, 2), "float32")}, [made])[0].tolist() == [[6.0, 6.0]]
