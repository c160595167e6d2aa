"""A trained model whose weights are whole numbers, and what they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid import layers
from refluid.fluid.contrib.slim.quantization import WeightQuantization

SAMPLES = np.random.default_rng(0).normal(size=(4, 3, 8, 8)).astype("float32")


@pytest.fixture
def model(tmp_path: Path) -> str:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 3, 8, 8])
        y = layers.conv2d(x, 6, 3, act="relu", param_attr="first")
        y = layers.conv2d(y, 6, 3, groups=6, use_cudnn=False, param_attr="each")
        y = layers.fc(y, 5, param_attr="last")
    exe, scope = fluid.Executor(), fluid.Scope()
    exe.run(startup, scope=scope)
    with fluid.scope_guard(scope):
        fluid.io.save_inference_model(str(tmp_path / "float"), ["x"], [y], exe, main)
    return str(tmp_path / "float")


def _loaded(folder: str, *files: str) -> tuple[fluid.Program, fluid.Scope, list[Any]]:
    exe, scope = fluid.Executor(), fluid.Scope()
    with fluid.scope_guard(scope):
        program, _, fetches = fluid.io.load_inference_model(folder, exe, *files)
        return program, scope, fetches


def _outcome(folder: str, *files: str) -> Any:
    program, scope, fetches = _loaded(folder, *files)
    exe = fluid.Executor()
    return exe.run(program, feed={"x": SAMPLES}, fetch_list=fetches, scope=scope)[0]


def _array(scope: fluid.Scope, name: str) -> Any:
    return np.array(scope.find_var(name).get_tensor())


@pytest.mark.parametrize("kind", ["channel_wise_abs_max", "abs_max"])
@pytest.mark.parametrize(("bits", "error"), [(8, 0.1), (16, 1e-3)])
def test_the_test_model_gives_nearly_what_the_model_gave(
    model: str, tmp_path: Path, kind: str, bits: int, error: float
) -> None:
    WeightQuantization(model).quantize_weight_to_int(
        str(tmp_path), "model", "params", ["conv2d", "depthwise_conv2d", "mul"], bits, kind, True
    )
    expected, found = _outcome(model), _outcome(str(tmp_path / "test_model"), "model", "params")
    assert 0 < np.abs(found - expected).max() < error * np.abs(expected).max()


@pytest.mark.parametrize(
    ("kind", "by_channel"), [("channel_wise_abs_max", True), ("abs_max", False)]
)
def test_whole_weights_times_their_scales_are_those_of_the_test_model(
    model: str, tmp_path: Path, kind: str, by_channel: bool
) -> None:
    WeightQuantization(model).quantize_weight_to_int(
        str(tmp_path), weight_quantize_type=kind, generate_test_model=True
    )
    program, scope, _ = _loaded(str(tmp_path / "quantized_model"))
    _, floats, _ = _loaded(str(tmp_path / "test_model"))
    for op in program.global_block().ops:
        if op.type not in ("conv2d", "mul"):
            assert not op.has_attr("quantize_weight_bits")
            continue
        name, axis = ("first", 0) if op.type == "conv2d" else ("last", 1)
        whole, scales = _array(scope, name), np.array(op.attr(f"{name}_quant_scale"))
        assert op.attr("quantize_weight_bits") == 8
        assert whole.dtype == "int8" and np.abs(whole).max() == 127
        assert program.global_block().var(name).dtype == fluid.core.VarDesc.VarType.INT8
        assert scales.shape == ((whole.shape[axis],) if by_channel else (1,))
        sizes = [-1 if n == axis else 1 for n in range(whole.ndim)]
        np.testing.assert_allclose(
            whole * scales.reshape(sizes if by_channel else 1), _array(floats, name), rtol=1e-6
        )
    assert _array(scope, "each").dtype == "float32"  # depthwise_conv2d wasn't asked for


def test_a_few_great_numbers_are_cut(model: str, tmp_path: Path) -> None:
    _, before, _ = _loaded(model)
    value = _array(before, "last")
    WeightQuantization(model).quantize_weight_to_int(
        str(tmp_path), weight_quantize_type="abs_max", generate_test_model=True, threshold_rate=0.1
    )
    _, scope, _ = _loaded(str(tmp_path / "test_model"))
    found = _array(scope, "last")
    cut = np.abs(value) > np.abs(found).max() * 1.001
    assert 0.08 * value.size < cut.sum() <= 0.1 * value.size
    np.testing.assert_allclose(np.abs(found[cut]), np.abs(found).max(), rtol=1e-6)


def test_weights_of_zeros_stay_zeros(model: str, tmp_path: Path) -> None:
    exe = fluid.Executor()
    program, scope, fetches = _loaded(model)
    tensor = scope.find_var("first").get_tensor()
    tensor.set(np.zeros_like(np.array(tensor)), fluid.CPUPlace())
    with fluid.scope_guard(scope):
        fluid.io.save_inference_model(str(tmp_path / "zeros"), ["x"], fetches, exe, program)
    WeightQuantization(str(tmp_path / "zeros")).quantize_weight_to_int(
        str(tmp_path), generate_test_model=True
    )
    expected, found = _outcome(str(tmp_path / "zeros")), _outcome(str(tmp_path / "test_model"))
    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"weight_bits": 4}, "8 or 16, not 4"),
        ({"quantizable_op_type": ["matmul"]}, "Unknown quantizable_op_type"),
        ({"weight_quantize_type": "range_abs_max"}, "Unknown weight_quantize_type"),
    ],
)
def test_what_is_unknown_is_refused(
    model: str, tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        WeightQuantization(model).quantize_weight_to_int(str(tmp_path / "made"), **wrong)
    assert not (tmp_path / "made").exists()
