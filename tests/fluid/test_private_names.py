"""Names with an underscore, and others that no documentation lists, which public scripts use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid import core
from refluid.fluid.layers import utils
from refluid.ir import framework_pb2
from tests.golden import GOLDEN, needs_golden


def _given(*values: Any) -> list[Any]:
    return [fluid.dygraph.to_variable(np.asarray(one, "float32")) for one in values]


def test_messages_have_fluids_name() -> None:
    from refluid.fluid.proto import framework_pb2 as named

    desc = named.VarType.TensorDesc(data_type=named.VarType.FP32, dims=[2, 3])
    assert named.VarType.TensorDesc.FromString(desc.SerializeToString()).dims == [2, 3]
    assert {name for name in dir(framework_pb2) if name[0].isupper()} == set(named.__all__)


def test_names_of_gradients() -> None:
    assert fluid.backward._append_grad_suffix_("x") == "x@GRAD"
    assert fluid.backward._strip_grad_suffix_("x@GRAD@RENAME@0") == "x"
    assert fluid.backward._strip_grad_suffix_("x") == "x"
    assert fluid.backward._some_in_set_(["x", "y"], {"y"})
    assert not fluid.backward._some_in_set_(["x"], {"y"})


def test_paddings() -> None:
    assert utils._is_symmetric_padding([1, 1, 2, 2], 2)
    assert not utils._is_symmetric_padding([1, 2, 2, 2], 2)
    with pytest.raises(AssertionError, match="4 numbers are needed for 2 axes"):
        utils._is_symmetric_padding([1, 2], 2)


def test_a_variable_is_fetched_and_cloned() -> None:
    main, scope = fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [2, 3], "float32")
    assert utils._contain_var([1, x])
    assert not utils._contain_var((1, 2))
    scope.var("w").get_tensor().set(np.arange(3.0), fluid.CPUPlace())
    assert fluid.executor._fetch_var("w", scope).tolist() == [0, 1, 2]
    assert isinstance(fluid.executor._fetch_var("w", scope, return_numpy=False), fluid.LoDTensor)
    with pytest.raises(AssertionError, match="Cannot find v in scope"):
        fluid.executor._fetch_var("v", scope)
    clone = fluid.io._clone_var_in_block_(fluid.Program().global_block(), x)
    assert (clone.name, clone.shape, clone.persistable) == ("x", (2, 3), True)


@needs_golden
def test_a_file_tells_which_operators_changed() -> None:
    program = fluid.Program()
    program.desc._set_version()
    core.save_op_compatible_info(program.desc)
    recorded = (GOLDEN / "formats" / "infer" / "__model__").read_bytes()
    theirs = framework_pb2.ProgramDesc.FromString(recorded)
    ours = framework_pb2.ProgramDesc.FromString(program.desc.serialize_to_string())
    assert ours.op_compatible_map == theirs.op_compatible_map
    assert ours.version.version == theirs.version.version == program.desc._version()


def test_operators_are_called_by_type() -> None:
    with fluid.dygraph.guard(fluid.CPUPlace()):
        x, y = _given(np.arange(6).reshape(2, 3), np.ones((4, 3)))
        y.stop_gradient = False
        product = core.ops.matmul(x, y, "transpose_Y", True)
        assert product.numpy().tolist() == [[3.0] * 4, [12.0] * 4]
        core.ops.mean(product).backward()
        assert y.gradient()[0].tolist() == [0.375, 0.625, 0.875]
        parts = core.ops.split(x, 3, "num", 3, "axis", 1)
        assert [one.numpy().tolist() for one in parts] == [[[0], [3]], [[1], [4]], [[2], [5]]]
        assert core.ops.concat([x, x], "axis", 0).shape == [4, 3]
        out, _ = core.ops.reshape2(x, None, "shape", [3, 2])
        assert out.shape == [3, 2]
        with pytest.raises(EnforceNotMet, match=r"ops\.scale: attribute 'bias' has no value"):
            core.ops.scale(x, "scale", 2.0, "bias")
        with pytest.raises(AttributeError, match="no operator 'nothing'"):
            _ = core.ops.nothing


def test_variables_for_results_are_given_too() -> None:
    with fluid.dygraph.guard(fluid.CPUPlace()):
        x, y = _given(np.arange(6).reshape(2, 3), np.ones((3, 4)))
        y.stop_gradient = False
        product = fluid.framework._varbase_creator(dtype=x.dtype, name="product")
        assert core.ops.matmul(x, y, product, "transpose_X", False) is product
        assert product.numpy().tolist() == [[3.0] * 4, [12.0] * 4]
        core.ops.mean(product).backward()
        assert y.gradient()[:, 0].tolist() == [0.375, 0.625, 0.875]


def test_outputs_that_overwrite_inputs_are_given_too() -> None:
    with fluid.dygraph.guard(fluid.CPUPlace()):
        image, scale, bias, mean, variance = _given(
            np.full((2, 1, 2, 2), 4.0), [1.0], [0.0], [0.0], [1.0]
        )
        made = core.ops.batch_norm(
            image, scale, bias, mean, variance, mean, variance, "momentum", 0.5, "is_test", False
        )
        assert made[1] is mean
        assert mean.numpy().tolist() == [2.0]


def test_what_ends_a_layer_that_runs_at_once() -> None:
    from refluid.fluid.dygraph_utils import _append_activation_in_dygraph, _append_bias_in_dygraph

    with fluid.dygraph.guard(fluid.CPUPlace()):
        x, bias = _given(np.array([[-3.0, 1.0]]), [1.0, 1.0])
        assert _append_bias_in_dygraph(x) is x
        assert _append_activation_in_dygraph(x) is x
        biased = _append_bias_in_dygraph(x, bias)
        assert _append_activation_in_dygraph(biased, "relu").numpy().tolist() == [[0.0, 2.0]]
    with pytest.raises(AssertionError, match="only support '_append_bias_in_dygraph"):
        _append_bias_in_dygraph(x)


def test_functions_for_one_mode_alone() -> None:
    double = fluid.framework.dygraph_not_support(lambda x: x * 2)
    assert double(3) == 6
    with fluid.dygraph.guard(fluid.CPUPlace()), pytest.raises(AssertionError, match="a program"):
        double(3)


class _Halves(fluid.dygraph.Layer):
    def forward(self, x: Any) -> Any:
        return fluid.layers.dropout(x, 0.5)


def test_dropout_goes_by_the_mode_of_any_layer() -> None:
    (ones,) = [np.ones(64, "float32")]
    with fluid.dygraph.guard(fluid.CPUPlace()):
        net, own = _Halves(), fluid.dygraph.Dropout(0.5)
        x = fluid.dygraph.to_variable(ones)
        assert set(net(x).numpy()) == {0.0, 1.0}
        fluid.dygraph.Dropout(0.5).eval()
        assert set(net(x).numpy()) == {0.5}
        assert set(own(x).numpy()) == {0.0, 1.0}  # a layer goes by its own
        net.train()
        assert set(net(x).numpy()) == {0.0, 1.0}
        net.eval()
    with fluid.dygraph.guard(fluid.CPUPlace()):
        assert set(net(fluid.dygraph.to_variable(ones)).numpy()) == {0.0, 1.0}


def test_the_tracer_tells_the_mode() -> None:
    assert fluid.framework._dygraph_tracer() is None
    with fluid.dygraph.guard(fluid.CPUPlace()):
        tracer = fluid.framework._dygraph_tracer()
        assert tracer is not None
        assert tracer._train_mode
        tracer.eval_mode()
        assert not tracer._train_mode
        tracer.train_mode()
        with fluid.dygraph.base._switch_tracer_mode_guard_(is_train=False):
            assert not tracer._train_mode
            assert not torch.is_grad_enabled()
        x, out = _given([1.0, 2.0], [0.0, 0.0])
        x.stop_gradient = out.stop_gradient = False
        tracer.trace_op("scale", {"X": x}, {"Out": out}, {"scale": 3.0})
        fluid.layers.reduce_sum(out).backward()
        assert out.numpy().tolist() == [3.0, 6.0]
        assert x.gradient().tolist() == [3.0, 3.0]


def test_servers_get_the_threads_they_are_told() -> None:
    from refluid.fluid.transpiler.distribute_transpiler import ServerRuntimeConfig

    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 2], "float32")
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(fluid.layers.fc(x, 1)))
    config, transpiler = ServerRuntimeConfig(), fluid.DistributeTranspiler()
    default, config._rpc_send_thread_num = config._rpc_send_thread_num, 3
    transpiler.transpile(0, main, "127.0.0.1:6174", 1, startup_program=startup)
    for given, threads in ((config, 3), (None, default)):
        transpiler._set_server_config(given)
        head = transpiler.get_pserver_program("127.0.0.1:6174").global_block().ops[-1]
        assert head.attr("rpc_send_thread_num") == threads
    with pytest.raises(TypeError, match="ServerRuntimeConfig is needed"):
        transpiler._set_server_config("three")  # type: ignore[arg-type]


def test_a_compiled_program_that_was_run_has_its_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "2")
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        y = fluid.layers.scale(fluid.data("x", [None, 1]), 2.0)
        program = fluid.default_main_program()
        executor = fluid.Executor(fluid.CPUPlace())
        parallel = fluid.CompiledProgram(program).with_data_parallel()
        for compiled, places in ((parallel, 2), (fluid.CompiledProgram(program), 1)):
            executor.run(compiled, feed={"x": np.ones([4, 1], "float32")}, fetch_list=[y])
            assert len(compiled._places) == places


def test_tensors_go_to_other_libraries_by_dlpack_and_come_back() -> None:
    with fluid.dygraph.guard():
        (x,) = _given([[1.0, 2.0]])
        there = torch.utils.dlpack.from_dlpack(x.value().get_tensor()._to_dlpack())
        there[0, 0] = 5.0
        assert x.numpy().tolist() == [[5.0, 2.0]]
        back = core.from_dlpack(torch.utils.dlpack.to_dlpack(there))
        assert isinstance(back, fluid.LoDTensor)
        y = fluid.dygraph.to_variable(back)
        assert (y.numpy().tolist(), y.stop_gradient) == ([[5.0, 2.0]], True)
