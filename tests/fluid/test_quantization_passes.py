"""Networks whose quantisation is simulated train, and frozen ones compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.fluid import core
from refluid.fluid.contrib.slim.quantization import (
    ConvertToInt8Pass,
    QuantizationFreezePass,
    QuantizationTransformPass,
    TransformForMobilePass,
)
from refluid.fluid.framework import IrGraph

ACTIVATIONS = ["abs_max", "range_abs_max", "moving_average_abs_max"]
WEIGHTS = ["abs_max", "channel_wise_abs_max"]
RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.randn(16, 1, 8, 8).astype("float32")
LABELS = (IMAGES.mean((1, 2, 3)) > 0).astype("int64")[:, None]


def _network(main: Any, startup: Any) -> tuple[Any, Any]:
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        image = fluid.data("image", [None, 1, 8, 8])
        label = fluid.data("label", [None, 1], "int64")
        hidden = fluid.layers.conv2d(image, 4, 3, act="relu")
        with fluid.name_scope("skip_quant"):
            hidden = fluid.layers.fc(hidden, 6, act="relu")
        out = fluid.layers.softmax(fluid.layers.fc(hidden, 2))
        return out, fluid.layers.mean(fluid.layers.cross_entropy(out, label))


class _Trained:
    """A network that was trained for some steps with simulated quantisation."""

    def __init__(self, activation: str, weight: str, steps: int = 40) -> None:
        self.scope, self.place = fluid.Scope(), fluid.CPUPlace()
        self.exe = fluid.Executor(self.place)
        main, startup, test = fluid.Program(), fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 7
        self.out, _ = _network(test, fluid.Program())
        _, loss = _network(main, startup)
        with fluid.program_guard(main, startup):
            fluid.optimizer.Adam(0.02).minimize(loss)
        with fluid.scope_guard(self.scope):
            self.exe.run(startup)
            kinds = {"activation_quantize_type": activation, "weight_quantize_type": weight}
            change = QuantizationTransformPass(self.scope, self.place, **kinds)
            train = change.apply(IrGraph(core.Graph(main.desc)))
            self.test = change.apply(
                IrGraph(core.Graph(test.clone(for_test=True).desc), for_test=True)
            )
            self.main = fluid.CompiledProgram(train.graph)
            feed = {"image": IMAGES, "label": LABELS}
            self.losses = [float(self.exe.run(self.main, feed, [loss])[0][0]) for _ in range(steps)]
        self.weight = weight

    def infer(self) -> Any:
        with fluid.scope_guard(self.scope):
            feed = {"image": IMAGES, "label": LABELS}
            return self.exe.run(self.test.to_program(), feed, [self.out.name])[0]


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_frozen_network_computes_what_was_simulated(activation: str, weight: str) -> None:
    trained = _Trained(activation, weight)
    assert trained.losses[-1] < 0.6 * trained.losses[0]
    simulated = trained.infer()
    QuantizationFreezePass(trained.scope, trained.place, weight_quantize_type=weight).apply(
        trained.test
    )
    np.testing.assert_allclose(trained.infer(), simulated, atol=2e-5)
    filters = np.array(trained.scope.find_var("conv2d_0.w_0").get_tensor())
    assert np.array_equal(filters, np.round(filters))
    assert np.abs(filters).max() == 127
    if weight == "channel_wise_abs_max":
        assert np.abs(filters).max((1, 2, 3)).tolist() == [127] * 4


def test_the_graph_is_as_documented() -> None:
    trained = _Trained("abs_max", "abs_max", steps=1)
    block = trained.test.to_program().global_block()
    conv = next(op for op in block.ops if op.type == "conv2d")
    assert conv.input("Input") == ["image.quantized.dequantized"]
    assert conv.input("Filter") == ["conv2d_0.w_0.quantized.dequantized"]
    products = [op.input("Y") for op in block.ops if op.type == "mul"]
    assert products == [["fc_0.w_0"], ["fc_1.w_0.quantized.dequantized"]]
    QuantizationFreezePass(trained.scope, trained.place).apply(trained.test)
    block = trained.test.to_program().global_block()
    conv = next(op for op in block.ops if op.type == "conv2d")
    back = next(op for op in block.ops if op.type == "fake_dequantize_max_abs")
    assert (conv.input("Input"), conv.input("Filter")) == (["image.quantized"], ["conv2d_0.w_0"])
    assert (back.input("X"), back.input("Scale")) == (["conv2d_0.tmp_0"], ["image.scale"])
    assert back.output("Out") == ["conv2d_0.tmp_0.dequantized"]


def test_gradients_reach_the_weights_as_if_nothing_stood_between() -> None:
    """With a weight that is whole already the step is that of the network without quantisation."""
    found = []
    for simulated in (False, True):
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.unique_name.guard(), fluid.program_guard(main, startup):
            whole = fluid.initializer.NumpyArrayInitializer(
                np.array([[127, -3], [64, 5]], "float32")
            )
            x = fluid.data("x", [None, 2])
            out = fluid.layers.fc(x, 2, param_attr=fluid.ParamAttr("w", initializer=whole))
            fluid.optimizer.SGD(1.0).minimize(fluid.layers.reduce_sum(out))
        exe = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(scope):
            exe.run(startup)
            graph = IrGraph(core.Graph(main.desc))
            if simulated:
                QuantizationTransformPass(scope, fluid.CPUPlace()).apply(graph)
            x_value = np.array([[127, 1], [2, -127]], "float32")
            exe.run(graph.to_program(), {"x": x_value}, [out.name])
        found.append(np.array(scope.find_var("w").get_tensor()))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_weights_as_int8_and_the_names_of_mobiles(tmp_path: Path) -> None:
    trained = _Trained("moving_average_abs_max", "abs_max", steps=2)
    QuantizationFreezePass(trained.scope, trained.place).apply(trained.test)
    ConvertToInt8Pass(trained.scope, trained.place).apply(trained.test)
    program = trained.test.to_program()
    conv = next(op for op in program.global_block().ops if op.type == "conv2d")
    assert conv.input("Filter") == ["conv2d_0.w_0.int8"]
    value = np.array(trained.scope.find_var("conv2d_0.w_0.int8").get_tensor())
    assert (value.dtype, np.abs(value.astype(int)).max()) == (np.int8, 127)
    with fluid.scope_guard(trained.scope):
        out = program.global_block().var(trained.out.name)
        path = str(tmp_path)
        fluid.io.save_inference_model(path, ["image"], [out], trained.exe, program)
    assert (tmp_path / "conv2d_0.w_0.int8").stat().st_size < 150
    TransformForMobilePass().apply(trained.test)
    types = {op.name() for op in trained.test.all_op_nodes()}
    assert {"quantize", "dequantize"} <= types
    assert not any(one.startswith("fake_") for one in types)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown activation_quantize_type"):
        QuantizationTransformPass(activation_quantize_type="min_max")
    with pytest.raises(ValueError, match="can't be quantised"):
        QuantizationTransformPass(quantizable_op_type=["lstm"])
    with pytest.raises(ValueError, match="scope and place"):
        QuantizationFreezePass(None, None)


def test_what_serves_functions_of_ones_own_has_no_effect_without_them() -> None:
    """As PaddleOCR gives an executor and an optimizer whether or not it clips by PACT."""

    def after(**more: Any) -> list[str]:
        main, startup = fluid.Program(), fluid.Program()
        _network(main, startup)
        with fluid.scope_guard(fluid.Scope()):
            fluid.Executor().run(startup)
            graph = IrGraph(core.Graph(main.desc))
            change = QuantizationTransformPass(fluid.global_scope(), fluid.CPUPlace(), **more)
            return [op.type for op in change.apply(graph).to_program().global_block().ops]

    given = {"optimizer_func": lambda: fluid.optimizer.Adam(0.1), "executor": fluid.Executor()}
    assert after(**given) == after()
