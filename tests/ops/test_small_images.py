"""Convolutions of images that a window doesn't fit into by less than a stride: Fluid has one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from tests.fluid.once import own_programs

L = fluid.layers
SIZES = {
    "neither": ((2, 2), 3, 2, 0),
    "one side": ((2, 6), 3, 2, 0),
    "with padding": ((1, 1), 5, 3, 1),
    "of dilated windows": ((3, 4), 2, 3, 0),
}
DILATION = {"of dilated windows": 4}


def _run(layer: Any, shape: tuple[int, ...], fed: Any) -> list[Any]:
    """What a layer gives, declared and computed, and the gradients of its input and filter."""
    with own_programs():
        x = fluid.data("x", shape)
        x.stop_gradient = False
        out = layer(x)
        (filters,) = fluid.default_main_program().all_parameters()
        wanted = fluid.gradients([L.reduce_sum(L.square(out))], [x, filters])
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        found = exe.run(feed={"x": fed}, fetch_list=[out, *wanted])
        assert tuple(out.shape) == found[0].shape
        return found


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", SIZES)
def test_zeros_lie_outside(name: str, groups: int) -> None:
    size, window, stride, pad = SIZES[name]
    dilation = DILATION.get(name, 1)
    extent = (window - 1) * dilation + 1
    ends = [max(extent - one - 2 * pad, 0) for one in size]
    fed = np.random.RandomState(1).randn(3, 2, *size).astype("float32")
    attr = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-1, 1, seed=3))

    def conv(x: Any, padding: Any) -> Any:
        return L.conv2d(x, 4, window, stride, padding, dilation, groups, attr, bias_attr=False)

    def padded(x: Any) -> Any:
        return conv(L.pad(x, [0, 0, 0, 0, pad, pad + ends[0], pad, pad + ends[1]]), 0)

    found = _run(lambda x: conv(x, pad), fed.shape, fed)
    wanted = _run(padded, fed.shape, fed)
    assert min(found[0].shape) == 1
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


def test_volumes() -> None:
    fed = np.random.RandomState(1).randn(2, 1, 2, 2, 3).astype("float32")
    attr = fluid.ParamAttr(initializer=fluid.initializer.Constant(1.0))
    out, *_ = _run(lambda x: L.conv3d(x, 1, 3, 2, param_attr=attr, bias_attr=False), fed.shape, fed)
    np.testing.assert_allclose(out.reshape(2), fed.sum((1, 2, 3, 4)), rtol=1e-5)


def test_a_window_that_lacks_a_stride_is_refused() -> None:
    with own_programs(), pytest.raises(EnforceNotMet, match="conv2d"):
        L.conv2d(fluid.data("x", [None, 1, 2, 2]), 1, 3, 1)
    with own_programs(), pytest.raises(EnforceNotMet, match="conv2d"):
        L.conv2d(fluid.data("x", [None, 1, 2, 2]), 1, 5, 3)
