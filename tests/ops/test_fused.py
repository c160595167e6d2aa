"""Operators that passes make: values by NumPy, gradients by differences, in place and not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from refluid.ops.registry import find
from tests.ops.running import check_gradient, run_op

RANDOM = np.random.RandomState(11)


def _activated(value: np.ndarray, activation: str) -> np.ndarray:
    if activation == "relu":
        return np.maximum(value, 0)
    if activation == "sigmoid":
        return 1 / (1 + np.exp(-value))
    return np.tanh(value) if activation == "tanh" else value


@pytest.mark.parametrize("activation", ["", "relu", "tanh", "sigmoid"])
@pytest.mark.parametrize(
    ("x", "y", "attrs"),
    [
        ((3, 4), (4, 5), {}),
        ((2, 3, 4), (4, 5), {"x_num_col_dims": 2}),
        ((3, 2, 2), (2, 2, 5), {"y_num_col_dims": 2}),
        ((2, 3, 4), (5, 4), {"x_num_col_dims": -1, "trans_y": True}),
    ],
)
def test_gemm_with_epilogue(
    activation: str, x: tuple[int, ...], y: tuple[int, ...], attrs: dict[str, object]
) -> None:
    inputs = {slot: RANDOM.standard_normal(shape) for slot, shape in (("X", x), ("Y", y))}
    inputs["Bias"] = RANDOM.standard_normal(5)
    weights = inputs["Y"].T if attrs.get("trans_y") else inputs["Y"].reshape(-1, 5)
    plain = inputs["X"].reshape(-1, weights.shape[0]) @ weights + inputs["Bias"]
    options = {**attrs, "activation": activation}
    found = run_op("fused_gemm_epilogue", inputs, options)["Out"]
    np.testing.assert_allclose(found.reshape(-1, 5), _activated(plain, activation), rtol=1e-10)
    check_gradient("fused_gemm_epilogue", inputs, options, wrt=["X", "Y", "Bias"])


def _norm_inputs(shape: tuple[int, ...], channels: int) -> dict[str, np.ndarray]:
    return {
        "X": RANDOM.standard_normal(shape),
        "Scale": RANDOM.uniform(0.5, 2, channels),
        "Bias": RANDOM.standard_normal(channels),
        "Mean": RANDOM.standard_normal(channels),
        "Variance": RANDOM.uniform(0.5, 2, channels),
    }


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("options", [{}, {"data_layout": "NHWC"}, {"use_global_stats": True}])
def test_batch_norm_with_activation(activation: str, options: dict[str, object]) -> None:
    inputs = _norm_inputs((3, 2, 4, 2), 2)
    plain = run_op("batch_norm", inputs, options)
    attrs = {**options, "act_type": activation}
    found = run_op("fused_batch_norm_act", inputs, attrs)
    np.testing.assert_allclose(found["Y"], _activated(plain["Y"], activation), rtol=1e-10)
    np.testing.assert_allclose(found["MeanOut"], plain["MeanOut"])
    check_gradient("fused_batch_norm_act", inputs, attrs, wrt=["X", "Scale", "Bias"])


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_batch_norm_with_sum_and_activation(activation: str) -> None:
    inputs = _norm_inputs((3, 2, 4, 2), 2)
    plain = run_op("batch_norm", inputs)
    other = RANDOM.standard_normal((3, 2, 4, 2))
    attrs = {"act_type": activation}
    given = {"X": inputs["X"], "Z": other, **inputs}
    found = run_op("fused_bn_add_activation", given, attrs)
    np.testing.assert_allclose(found["Y"], _activated(plain["Y"] + other, activation), rtol=1e-10)
    check_gradient("fused_bn_add_activation", given, attrs, wrt=["X", "Z", "Scale", "Bias"])


def test_relu_before_a_depthwise_convolution() -> None:
    inputs = {"Input": RANDOM.standard_normal((2, 3, 5, 5)), "Filter": RANDOM.randn(3, 1, 3, 3)}
    attrs = {"groups": 3, "paddings": [1, 1]}
    active = {**inputs, "Input": np.maximum(inputs["Input"], 0)}
    fused = {**attrs, "fuse_relu_before_depthwise_conv": True}
    found = run_op("depthwise_conv2d", inputs, fused)["Output"]
    np.testing.assert_allclose(found, run_op("depthwise_conv2d", active, attrs)["Output"])
    check_gradient("depthwise_conv2d", inputs, fused, wrt=["Input", "Filter"])


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_activated_sums_in_place(activation: str, kind: torch.dtype) -> None:
    forward, backward = find("fused_elemwise_activation"), find("fused_elemwise_activation_grad")
    assert forward is not None
    assert backward is not None
    x, y, grad = torch.randn(3, 2, 4, 3).unbind(0)
    x, y, grad = x.to(kind), y[0, :, 0].to(kind), grad.to(kind)
    options = {"functor_list": [activation, "elementwise_add"], "axis": 1}
    expected, middle = forward.body(x, y, **options, counts=(1, 0))
    assert middle is None
    over = x.clone()
    found, _ = forward.reusing["X"](over, y, **options, counts=(1, 0))
    assert found.data_ptr() == over.data_ptr()
    assert torch.equal(found, expected)
    plain = backward.body(x, y, expected, None, grad, **options)
    scratch = grad.clone()
    reused = backward.reusing["Out@GRAD"](x, y, expected, None, scratch, **options)
    assert reused[0].data_ptr() == scratch.data_ptr()
    for one, other in zip(plain[:2], reused[:2], strict=True):
        assert torch.equal(one, other)
