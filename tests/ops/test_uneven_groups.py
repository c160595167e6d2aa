"""group_norm of channels that can't be divided evenly: the last groups have fewer."""

from __future__ import annotations

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from tests.ops.running import Array, check_gradient, run_op

RANDOM = np.random.RandomState(4)
SIZES = {(3, 2): [2, 1], (5, 3): [2, 2, 1], (5, 4): [2, 2, 1, 0], (7, 3): [3, 3, 1]}


def _by_hand(x: Array, sizes: list[int]) -> tuple[Array, Array, Array]:
    normal, means, variances = [], np.zeros((len(x), len(sizes))), np.zeros((len(x), len(sizes)))
    for place, size in enumerate(sizes):
        start = sum(sizes[:place])
        if size:
            part = x[:, start : start + size]
            mean, variance = part.mean((1, 2, 3)), part.var((1, 2, 3))
            means[:, place], variances[:, place] = mean, variance
            normal.append((part.T - mean).T / np.sqrt(variance + 1e-5)[:, None, None, None])
    return np.concatenate(normal, 1), means, variances


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("channels", "groups"), SIZES)
def test_the_last_groups_have_fewer_channels(channels: int, groups: int, layout: str) -> None:
    x = RANDOM.standard_normal((2, channels, 2, 3))
    scale, bias = RANDOM.standard_normal(channels), RANDOM.standard_normal(channels)
    given = x if layout == "NCHW" else np.moveaxis(x, 1, -1)
    inputs = {"X": given, "Scale": scale, "Bias": bias}
    attrs = {"groups": groups, "data_layout": layout}
    found = run_op("group_norm", inputs, attrs)
    normal, mean, variance = _by_hand(x, SIZES[channels, groups])
    wanted = normal * scale[:, None, None] + bias[:, None, None]
    y = found["Y"] if layout == "NCHW" else np.moveaxis(found["Y"], -1, 1)
    np.testing.assert_allclose(y, wanted, atol=1e-10)
    np.testing.assert_allclose(found["Mean"], mean, atol=1e-10)
    np.testing.assert_allclose(found["Variance"], variance, atol=1e-10)
    check_gradient("group_norm", inputs, attrs, wrt=["X", "Scale", "Bias"], of="Y")


def test_a_layer_of_dygraph() -> None:
    """Of three channels in two groups; the parameters learn, the last channel is on its own."""
    data = RANDOM.rand(3, 3, 3, 3).astype("float32")
    with fluid.dygraph.guard():
        ones = fluid.initializer.Constant(1.0)
        norm = fluid.dygraph.GroupNorm(3, 2, param_attr=ones)
        y = norm(fluid.dygraph.to_variable(data))
        fluid.layers.reduce_sum(y * y).backward()
        normal = _by_hand(data.astype("float64"), [2, 1])[0]
        np.testing.assert_allclose(y.numpy(), normal, atol=1e-5)
        wanted = 2 * (normal**2).sum((0, 2, 3))
        np.testing.assert_allclose(norm.weight.gradient(), wanted, rtol=1e-4)


def test_more_groups_than_channels_are_refused() -> None:
    with pytest.raises(EnforceNotMet, match="more than the 3 channels"):
        run_op("group_norm", {"X": RANDOM.standard_normal((2, 3, 2, 2))}, {"groups": 4})
