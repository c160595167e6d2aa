"""Gradients of gradients through operators that are linear, at least where they are smooth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet

L = fluid.layers
DRAW = np.random.default_rng(3)
Layer = Callable[[Any], Any]


def _image(x: Any) -> Any:
    return L.reshape(x, [1, 2, 2, 2])


def _ones() -> Any:
    return L.fill_constant([2, 4], "float64", 1.0)


LAYERS: dict[str, Layer] = {
    "slice": lambda x: L.slice(x, [1], [0], [3]),
    "slice of one": lambda x: x[:, 1],
    "strided_slice": lambda x: L.strided_slice(x, [1], [0], [4], [2]),
    "crop_tensor": lambda x: L.crop_tensor(x, [2, 2], [0, 1]),
    "transpose2": lambda x: L.transpose(x, [1, 0]),
    "squeeze2": lambda x: L.squeeze(L.unsqueeze(x, [1]), [1]),
    "flatten2": lambda x: L.flatten(_image(x), 2),
    "concat": lambda x: L.concat([x, L.scale(x, 3.0)], 0),
    "stack": lambda x: L.stack([x, L.scale(x, 3.0)], 1),
    "concat with constants": lambda x: L.concat([_ones(), x, _ones()], 1),
    "stack with constants": lambda x: L.stack([_ones(), x], 1),
    "unstack": lambda x: L.unstack(x, 1)[2],
    "expand": lambda x: L.expand(x, [1, 2]),
    "gather": lambda x: L.gather(x, L.assign(np.array([1, 0, 1], "int32"))),
    "gather with sums": lambda x: L.gather(
        x, L.assign(np.array([1, 0, 1], "int32")), overwrite=False
    ),
    "gather_nd": lambda x: L.gather_nd(x, L.assign(np.array([[0, 3], [1, 1]], "int32"))),
    "pad": lambda x: L.pad(x, [0, 1, 2, 0]),
    "pad2d": lambda x: L.pad2d(_image(x), [1, 0, 1, 1], mode="reflect"),
    "mean": L.mean,
    "reduce_mean": lambda x: L.reduce_mean(x, [1], keep_dim=True),
    "reduce_sum": lambda x: L.reduce_sum(x, [0]),
    "clip": lambda x: L.clip(x, -0.5, 0.5),
    "brelu": lambda x: L.brelu(x, -0.4, 0.6),
    "relu6": lambda x: L.relu6(x, 0.7),
    "ceil": lambda x: L.ceil(x) * x * x,
    "hard_sigmoid": L.hard_sigmoid,
    "hard_shrink": lambda x: L.hard_shrink(x, 0.3),
    "softshrink": lambda x: L.softshrink(x, 0.3),
    "thresholded_relu": lambda x: L.thresholded_relu(x, 0.2),
    "dropout": lambda x: L.dropout(x, 0.4, seed=5),
}


@pytest.mark.parametrize("name", LAYERS)
def test_they_agree_with_differences(name: str) -> None:
    value = DRAW.uniform(-1.0, 1.0, (2, 4))
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x = fluid.data("x", [2, 4], "float64")
        x.stop_gradient = False
        y = LAYERS[name](L.elementwise_mul(x, x))  # so that the first gradient depends on x
        (first,) = fluid.gradients(L.reduce_sum(y * y), x)
        penalty = L.reduce_sum(first * first)
        (second,) = fluid.gradients(penalty, x)
    executor, direction = fluid.Executor(), DRAW.standard_normal(value.shape)

    def run(at: Any, fetch: Any) -> Any:
        return executor.run(main, feed={"x": at}, fetch_list=[fetch])[0]

    ends = [run(value + step * direction, penalty)[0] for step in (1e-6, -1e-6)]
    expected = (ends[0] - ends[1]) / 2e-6
    assert (run(value, second) * direction).sum() == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_a_direction_pushed_forward_by_two_gradients() -> None:
    """As Gauss and Newton need it: J v is the gradient by g of (Jᵀ g) v."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x, v, g = (fluid.data(name, [2, 4], "float64") for name in "xvg")
        x.stop_gradient = g.stop_gradient = False
        residual = L.concat(L.split(L.elu(x), 2, 1), 1)[:, 1:]
        (back,) = fluid.gradients(residual, x, L.slice(g, [1], [1], [4]))
        (forward,) = fluid.gradients(L.elementwise_mul(back, v), g)
    x, v, g = (DRAW.uniform(-1.0, 1.0, (2, 4)) for _ in range(3))
    (found,) = fluid.Executor().run(main, {"x": x, "v": v, "g": g}, [forward])
    expected = np.where(x > 0, 1.0, np.exp(x)) * v
    expected[:, 0] = 0
    np.testing.assert_allclose(found, expected, rtol=1e-12)


PADS: dict[str, Layer] = {
    "pad": lambda x: L.pad(x, [0, 0, 0, 0, 0, 1, 2, 0], pad_value=0.7),
    "pad2d": lambda x: L.pad2d(x, [0, 1, 2, 0], pad_value=0.7),
}


@pytest.mark.parametrize("name", PADS)
def test_what_lies_around_depends_on_no_slope(name: str) -> None:
    """Whatever number is there: a slope that comes to it goes nowhere."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [1, 1, 2, 3], "float64")
        flow = fluid.data("flow", [1, 1, 3, 5], "float64")
        x.stop_gradient = flow.stop_gradient = False
        (first,) = fluid.gradients(PADS[name](x), x, flow)
        (second,) = fluid.gradients(L.reduce_sum(first * first), flow)
    slopes = DRAW.uniform(0.5, 1.0, (1, 1, 3, 5))
    (found,) = fluid.Executor().run(main, {"x": np.ones((1, 1, 2, 3)), "flow": slopes}, [second])
    expected = np.zeros_like(slopes)
    expected[:, :, :2, 2:] = 2.0 * slopes[:, :, :2, 2:]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_rows_that_a_gradient_left_out_are_left_out_of_its_gradient() -> None:
    """Of a row that `gather` takes twice the last slope counts; the other one changes nothing."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x, flow = fluid.data("x", [3, 2], "float64"), fluid.data("flow", [3, 2], "float64")
        x.stop_gradient = flow.stop_gradient = False
        rows = L.gather(x, L.assign(np.array([1, 1, 2], "int32")))
        (first,) = fluid.gradients(rows, x, flow)
        (second,) = fluid.gradients(L.reduce_sum(first * first), flow)
    slopes = DRAW.uniform(0.5, 1.0, (3, 2))
    feed = {"x": np.ones((3, 2)), "flow": slopes}
    once, twice = fluid.Executor().run(main, feed, [first, second])
    np.testing.assert_array_equal(once, [[0, 0], slopes[1], slopes[2]])
    np.testing.assert_allclose(twice, [[0, 0], 2 * slopes[1], 2 * slopes[2]], rtol=1e-12)


@pytest.mark.parametrize("loop", [False, True])
def test_control_flow_without_one_is_named(loop: bool) -> None:
    """With the user's line, though its gradient operator has none."""
    with fluid.program_guard(fluid.Program()), fluid.unique_name.guard():
        x = fluid.data("x", [2, 4])
        x.stop_gradient = False
        if loop:
            count, end = (L.fill_constant([1], "int64", value) for value in (0, 3))
            y = L.while_loop(lambda i, y: i < end, lambda i, y: [i + 1, y * x], [count, x * 1.0])[1]
        else:
            y = L.cond(L.reduce_sum(x) > 0, lambda: x * x, lambda: x)
        (first,) = fluid.gradients(L.reduce_sum(y), x)
        with pytest.raises(EnforceNotMet, match=r"_grad has no gradient(.|\n)*Fix: ") as error:
            fluid.gradients(L.reduce_sum(first), x)
    assert "test_second_linear.py" in str(error.value)
    assert "contextlib.py" not in str(error.value)


def test_an_operator_without_one_is_named() -> None:
    with fluid.program_guard(fluid.Program()), fluid.unique_name.guard():
        x = fluid.data("x", [2, 4])
        x.stop_gradient = False
        (first,) = fluid.gradients(L.softmax(x), x)
        with pytest.raises(
            EnforceNotMet, match=r"softmax_grad has no gradient(.|\n)*Fix: "
        ) as error:
            fluid.gradients(L.reduce_sum(first), x)
    assert "test_second_linear.py" in str(error.value)
