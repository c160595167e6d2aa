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


@pytest.mark.parametrize("window, stride", [(3, 1), (5, 3)])
@pytest.mark.parametrize("form", ["NCHW", "NHWC"])
def test_a_window_that_lacks_a_stride_is_refused_where_it_runs(
    window: int, stride: int, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A program may have it, as in paddle 2.6.2: what is fetched needn't need it."""
    shape = [2, 1, 2, 6] if form == "NCHW" else [2, 2, 6, 1]
    with own_programs():
        x = fluid.data(f"{form}{window}", shape)
        small = L.conv2d(x, 3, window, stride, data_format=form)
        wide = -(-(6 - window + 1) // stride)
        assert tuple(small.shape) == ((2, 3, -1, wide) if form == "NCHW" else (2, -1, wide, 3))
        before = L.scale(x, 2.0)
        assert "filter is larger than its input" in caplog.text
        exe, feed = fluid.Executor(), {x.name: np.ones(shape, "float32")}
        exe.run(fluid.default_startup_program())
        (found,) = exe.run(feed=feed, fetch_list=[before], use_prune=True)
        np.testing.assert_array_equal(found, np.full(shape, 2.0))
        with pytest.raises(EnforceNotMet, match=r"conv2d(.|\n)*test_small_images(.|\n)*Fix: "):
            exe.run(feed=feed, fetch_list=[small])


def test_channels_are_compared_though_no_window_fits() -> None:
    with own_programs(), pytest.raises(EnforceNotMet, match="conv2d"):
        x = fluid.data("x", [2, 3, 2, 2])
        block = fluid.default_main_program().global_block()
        filters = block.create_var(name="filters", shape=[4, 2, 5, 5], dtype="float32")
        block.append_op(
            type="conv2d",
            inputs={"Input": [x], "Filter": [filters]},
            outputs={"Output": [block.create_var(name="out")]},
        )


def test_small_volumes_too() -> None:
    with own_programs():
        x = fluid.data("x", [2, 1, 2, 6, 6])
        small = L.conv3d(x, 3, 3)
        assert tuple(small.shape) == (2, 3, -1, 4, 4)
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        with pytest.raises(EnforceNotMet, match=r"conv3d(.|\n)*test_small_images"):
            exe.run(feed={"x": np.ones((2, 1, 2, 6, 6), "float32")}, fetch_list=[small])


@pytest.mark.parametrize("changed", [{"strides": [1]}, {"dilations": [1, 1, 1]}, {"groups": 3}])
def test_other_faults_are_said_by_the_operator(changed: dict[str, Any]) -> None:
    with own_programs(), pytest.raises(EnforceNotMet, match=r"operator conv2d(.|\n)*Input\(x\)"):
        block = fluid.default_main_program().global_block()
        filters = block.create_var(name="filters", shape=[4, 2, 5, 5], dtype="float32")
        block.append_op(
            type="conv2d",
            inputs={"Input": [fluid.data("x", [2, 2, 4, 4])], "Filter": [filters]},
            outputs={"Output": [block.create_var(name="out")]},
            attrs={"strides": [1, 1], "dilations": [1, 1], "groups": 1} | changed,
        )
