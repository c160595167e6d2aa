"""Batch normalisation by the running statistics, and inplace_abn, with their gradients."""

from __future__ import annotations

import numpy as np
import pytest

from refluid import fluid
from tests.ops.running import Array, check_gradient, run_op

L = fluid.layers
RANDOM = np.random.RandomState(9)


def _inputs(shape: tuple[int, ...]) -> dict[str, Array]:
    channels = shape[1]
    return {
        "X": RANDOM.standard_normal(shape),
        "Scale": RANDOM.uniform(0.5, 2.0, channels),
        "Bias": RANDOM.standard_normal(channels),
        "Mean": RANDOM.standard_normal(channels),
        "Variance": RANDOM.uniform(0.5, 2.0, channels),
    }


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4, 5)])
def test_batch_norm_by_running_statistics(shape: tuple[int, ...]) -> None:
    inputs, attrs = _inputs(shape), {"use_global_stats": True, "epsilon": 1e-3}
    found = run_op("batch_norm", inputs, attrs)
    one = [inputs[slot].reshape(1, -1, *[1] * (len(shape) - 2)) for slot in list(inputs)[1:]]
    scale, bias, mean, variance = one
    expected = (inputs["X"] - mean) / np.sqrt(variance + np.float32(1e-3)) * scale + bias
    np.testing.assert_allclose(found["Y"], expected)
    check_gradient("batch_norm", inputs, attrs, wrt=["X", "Scale", "Bias"])


def _gradients(layer: str, act: str | None, **options: bool) -> list[Array]:
    """Loss and gradients of a small network whose input is used before and after the layer."""
    x = np.random.RandomState(1).standard_normal((4, 3, 2)).astype("float32")
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        data = fluid.data("x", [4, 3, 2])
        hidden = L.fc(data, 3, num_flatten_dims=2, param_attr=fluid.ParamAttr("w"))
        hidden = L.transpose(hidden, [0, 2, 1])
        before = L.reduce_sum(L.square(hidden))
        attrs = (fluid.ParamAttr("s", fluid.initializer.Constant(1.5)), fluid.ParamAttr("b"))
        if layer == "batch_norm":
            hidden = L.batch_norm(hidden, None, False, 0.9, 1e-5, *attrs, **options)
            hidden = L.leaky_relu(hidden, 0.3) if act == "leaky_relu" else hidden
            hidden = L.elu(hidden, 0.3) if act == "elu" else hidden
        else:
            hidden = L.inplace_abn(hidden, act, False, 0.9, 1e-5, *attrs, act_alpha=0.3, **options)
        loss = L.reduce_sum(L.sin(hidden)) + before
        grads = fluid.gradients(loss, [main.global_block().var(name) for name in ("w", "s", "b")])
    main.random_seed = startup.random_seed = 5
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        weights = np.random.RandomState(2).standard_normal((2, 3)).astype("float32")
        fluid.global_scope().find_var("w").get_tensor().set(weights, fluid.CPUPlace())
        return executor.run(main, {"x": x}, [loss, *grads])


@pytest.mark.parametrize("act", [None, "leaky_relu", "elu"])
@pytest.mark.parametrize("by_running", [False, True])
def test_inplace_abn_is_batch_norm_and_an_activation(act: str | None, by_running: bool) -> None:
    expected = _gradients("batch_norm", act, use_global_stats=by_running)
    found = _gradients("inplace_abn", act, use_global_stats=by_running)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
