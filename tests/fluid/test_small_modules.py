"""Fluid's small modules: structures, decorators, scopes, graphs, operators by name, transpilers."""

from __future__ import annotations

import inspect
import io
import logging
import socket
from pathlib import Path

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.fluid import (
    annotations,
    default_scope_funcs,
    graphviz,
    install_check,
    log_helper,
    transpiler,
    wrapped_decorator,
)
from refluid.fluid.layers import utils
from refluid.fluid.transpiler import details
from refluid.ir import framework_pb2 as pb


def _program() -> fluid.Program:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.data("x", [None, 2])
        fluid.layers.mean(fluid.layers.relu(fluid.layers.fc(x, 3)))
    return program


def test_a_number_stands_for_a_list() -> None:
    assert utils.convert_to_list(3, 2, "stride") == [3, 3]
    assert utils.convert_to_list((1, 2), 2, "stride") == [1, 2]
    for wrong in ([1], ["a", 1], None):
        with pytest.raises(ValueError, match="stride"):
            utils.convert_to_list(wrong, 2, "stride")


def test_structures_are_copied_where_a_body_could_change_them() -> None:
    assert not utils.hold_mutable_vars([1, 2])
    nest = [1, {"a": [2]}]
    assert utils.hold_mutable_vars(nest)
    copy = utils.copy_mutable_vars(nest)
    copy[1]["a"].append(3)
    assert nest == [1, {"a": [2]}]


def test_a_wrapped_function_keeps_its_signature() -> None:
    @wrapped_decorator.signature_safe_contextmanager
    def opened(path: str, mode: str = "r"):  # type: ignore[no-untyped-def]
        yield path + mode

    assert list(inspect.signature(opened).parameters) == ["path", "mode"]
    with opened("a") as value:
        assert value == "ar"


def test_a_deprecated_function_says_what_replaces_it(capsys: pytest.CaptureFixture[str]) -> None:
    @annotations.deprecated(since="1.5", instead="new", extra_message="It goes.")
    def old(x: int) -> int:
        return x + 1

    assert old(1) == 2
    assert "old is deprecated since 1.5. Please use new" in capsys.readouterr().err


def test_loggers_write_once(capsys: pytest.CaptureFixture[str]) -> None:
    logger = log_helper.get_logger("refluid.test_small", logging.INFO, fmt="<%(message)s>")
    logger.info("here")
    assert capsys.readouterr().err == "<here>\n"


def test_scopes_are_stacked() -> None:
    default_scope_funcs.var("outer")

    def inside() -> None:
        default_scope_funcs.var("inner")
        assert default_scope_funcs.find_var("outer") is not None

    default_scope_funcs.scoped_function(inside)
    assert default_scope_funcs.find_var("inner") is None
    with pytest.raises(IndexError):
        default_scope_funcs.leave_local_scope()


def test_graphs_are_written_for_graphviz(tmp_path: Path) -> None:
    generator = graphviz.GraphPreviewGenerator("net")
    source = generator.add_arg("x")
    target = generator.add_op("relu", highlight=True)
    generator.add_edge(source, target)
    path = tmp_path / "net.dot"
    generator(str(path))
    text = path.read_text()
    assert text.startswith("digraph G {")
    assert f"{source.name} -> {target.name}" in text
    assert 'fillcolor="red"' in text


def test_operators_are_made_by_name() -> None:
    desc = fluid.op.Operator("scale", X="a", Out=["b"], scale=2.0)
    assert isinstance(desc, pb.OpDesc)
    assert (desc.type, desc.inputs[0].arguments[0], desc.attrs[0].f) == ("scale", "a", 2.0)
    assert "X" in fluid.op.Operator.get_op_input_names("mul")
    with pytest.raises(ValueError, match="takes one variable"):
        fluid.op.Operator("scale", X=["a", "c"], Out="b")
    with pytest.raises(ValueError, match="not been registered"):
        fluid.op.Operator("no_such")


def test_protos_of_operators() -> None:
    holder = fluid.framework.OpProtoHolder.instance()
    assert holder is fluid.framework.OpProtoHolder.instance()
    slots = {slot.name: slot.duplicable for slot in holder.get_op_proto("concat").inputs}
    assert slots["X"]
    types = {pb.OpProto.FromString(one).type for one in fluid.core.get_all_op_protos()}
    assert {"mul", "while", "sgd"} <= types
    assert fluid.core.get_op_attrs_default_value(b"scale")["scale"] == 1.0


def test_memory_optimize_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    program = _program()
    text = str(program)
    for _ in range(2):
        fluid.memory_optimize(program, print_log=True)
        fluid.release_memory(program)
    assert str(program) == text
    assert len([one for one in caplog.messages if "memory_optimize changes nothing" in one]) <= 1
    assert transpiler.memory_optimize is fluid.memory_optimize


def test_config_of_transpilers_is_checked() -> None:
    config = fluid.DistributeTranspilerConfig()
    assert (config.slice_var_up, config.min_block_size, config.sync_mode) == (True, 8192, True)
    with pytest.raises(ValueError, match="sync_mode is false"):
        config.runtime_split_send_recv = True
    config.sync_mode = False
    config.runtime_split_send_recv = True
    with pytest.raises(ValueError, match="runtime_split_send_recv is false"):
        config.sync_mode = True
    assert fluid.DistributeTranspiler(config).config is config


def test_variables_are_dealt_to_servers() -> None:
    variables = _program().all_parameters()
    robin = transpiler.RoundRobin(["a:1", "b:2", "c:3"])
    assert robin.dispatch(variables) == ["a:1", "b:2"]
    assert robin.dispatch(variables) == ["c:3", "a:1"]
    robin.reset()
    assert robin.dispatch(variables[:1]) == ["a:1"]
    hashed = transpiler.HashName(["a:1", "b:2"])
    assert hashed.dispatch(variables) == hashed.dispatch(variables)


def test_variables_are_cut_into_whole_rows() -> None:
    from refluid.fluid.transpiler.distribute_transpiler import slice_variable

    block = fluid.Program().global_block()
    wide = block.create_var(name="w", shape=[10, 6], dtype="float32")
    small = block.create_var(name="b", shape=[6], dtype="float32")
    assert slice_variable([wide, small], 3, 8) == ["w:0:24", "w:1:24", "w:2:12", "b:0:6"]


def test_elements_grow_together() -> None:
    sets = details.UnionFind(["a", "b", "c"])
    sets.union("a", "b")
    assert sets.is_connected("a", "b")
    assert not sets.is_connected("a", "c")
    assert sets.find("d") is None


def test_operators_are_found_and_deleted() -> None:
    block = _program().global_block()
    relu = next(op for op in block.ops if op.type == "relu")
    name = relu.output("Out")[0]
    assert details.find_op_by_output_arg(block, name) == block.ops.index(relu)
    assert details.find_op_by_input_arg(block, name) == block.ops.index(relu) + 1
    details.delete_ops(block, [relu])
    assert details.find_op_by_output_arg(block, name) == -1


def test_programs_as_text() -> None:
    out = io.StringIO()
    details.program_to_code(_program(), fout=out)
    assert out.getvalue().startswith("{ // block 0\n")
    assert "relu" in out.getvalue()


def test_servers_that_listen_are_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        details.wait_server_ready([f"127.0.0.1:{server.getsockname()[1]}"])
    with pytest.raises(TypeError):
        details.wait_server_ready("127.0.0.1:1")


def test_run_check_trains(capsys: pytest.CaptureFixture[str]) -> None:
    install_check.run_check()
    assert "works well" in capsys.readouterr().out


@pytest.mark.parametrize("range_", ["1.8.5.0", "0.1 1.8.5", "1 1.8.5.0", "1.8.5 10.0.0"])
def test_a_version_of_fewer_parts_ends_in_zeros(range_: str) -> None:
    fluid.require_version(*range_.split())


@pytest.mark.parametrize("range_", ["1.8.5.1", "1.8.6", "0.1 1.8", "0.1 1.8.4.9"])
def test_another_version_is_required(range_: str) -> None:
    with pytest.raises(Exception, match=r"VersionError: .* stands for Fluid 1.8.5"):
        fluid.require_version(*range_.split())


def test_what_may_be_fed() -> None:
    from refluid.fluid.executor import check_feed_shape_type, dimension_is_compatible_with

    assert dimension_is_compatible_with([None, 2], [5, 2])
    assert not dimension_is_compatible_with([3, 2], [5, 2])
    x = _program().global_block().var("x")
    with pytest.raises(ValueError, match="should have dimensions"):
        check_feed_shape_type(x, np.zeros((4, 3), "float32"))


def test_names_come_from_the_current_generator() -> None:
    with fluid.unique_name.guard("in_"):
        assert fluid.unique_name.generator("x") == "in_x_0"
