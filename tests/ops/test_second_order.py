"""Gradients of gradients agree with finite differences of the first ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from tests.ops.running import Array

RANDOM = np.random.RandomState(7)


def _draw(*shape: int, low: float = 0.3, high: float = 1.5, signs: bool = True) -> Array:
    values = RANDOM.uniform(low, high, shape)
    return values * RANDOM.choice([-1.0, 1.0], shape) if signs else values


# Operator: inputs by slot, attributes, its result.
CASES: dict[str, tuple[dict[str, Array], dict[str, Any], str]] = {
    "conv2d": (
        {"Input": _draw(2, 2, 5, 5), "Filter": _draw(3, 2, 3, 3)},
        {"strides": [2, 1], "paddings": [1, 1], "dilations": [1, 1], "groups": 1},
        "Output",
    ),
    "depthwise_conv2d": (
        {"Input": _draw(1, 2, 4, 4), "Filter": _draw(2, 1, 3, 3)},
        {"strides": [1, 1], "paddings": [0, 1], "groups": 2},
        "Output",
    ),
    "conv3d": (
        {"Input": _draw(1, 2, 3, 3, 3), "Filter": _draw(2, 2, 2, 2, 2)},
        {"strides": [1, 1, 1], "paddings": [0, 0, 0]},
        "Output",
    ),
    "mul": ({"X": _draw(3, 2, 2), "Y": _draw(4, 3)}, {"x_num_col_dims": 1}, "Out"),
    "elementwise_add": ({"X": _draw(2, 3, 4), "Y": _draw(3)}, {"axis": 1}, "Out"),
    "elementwise_sub": ({"X": _draw(2, 3), "Y": _draw(2, 3)}, {}, "Out"),
    "elementwise_mul": ({"X": _draw(2, 3, 4), "Y": _draw(3)}, {"axis": 1}, "Out"),
    "elementwise_div": ({"X": _draw(2, 3, 4), "Y": _draw(2)}, {"axis": 0}, "Out"),
    "relu": ({"X": _draw(3, 4)}, {}, "Out"),
    "leaky_relu": ({"X": _draw(3, 4)}, {"alpha": 0.1}, "Out"),
    "elu": ({"X": _draw(3, 4)}, {"alpha": 0.7}, "Out"),
    "sqrt": ({"X": _draw(3, 4, signs=False)}, {}, "Out"),
    "square": ({"X": _draw(3, 4)}, {}, "Out"),
    "matmul": ({"X": _draw(2, 4), "Y": _draw(3, 4)}, {"transpose_Y": True, "alpha": 0.5}, "Out"),
    "log": ({"X": _draw(3, 4, signs=False)}, {}, "Out"),
    "pow": ({"X": _draw(3, 4, signs=False)}, {"factor": 2.5}, "Out"),
    "elementwise_pow": (
        {"X": _draw(3, 4, signs=False), "Y": _draw(4)},
        {},
        "Out",
    ),
    "elementwise_max": ({"X": _draw(2, 3, 4), "Y": _draw(3)}, {"axis": 1}, "Out"),
    "elementwise_min": ({"X": _draw(3, 4), "Y": _draw(3, 4)}, {}, "Out"),
    "bmm": ({"X": _draw(2, 2, 3), "Y": _draw(2, 3, 2)}, {}, "Out"),
    "norm": ({"X": _draw(3, 4)}, {"axis": 1, "epsilon": 1e-3}, "Out"),
    "log1p": ({"X": _draw(3, 4, signs=False)}, {}, "Out"),
    "reciprocal": ({"X": _draw(3, 4)}, {}, "Out"),
    "rsqrt": ({"X": _draw(3, 4, signs=False)}, {}, "Out"),
    "softplus": ({"X": _draw(3, 4)}, {}, "Out"),
    "swish": ({"X": _draw(3, 4)}, {"beta": 1.5}, "Out"),
    "reshape2": ({"X": _draw(3, 4)}, {"shape": [2, 6]}, "Out"),
    "instance_norm": (
        {"X": _draw(2, 3, 4), "Scale": _draw(3), "Bias": _draw(3)},
        {"epsilon": 1e-3},
        "Y",
    ),
}

SMOOTH = "abs cos exp gelu sigmoid sin softsign tanh atan erf hard_swish logsigmoid stanh"
for _name in f"{SMOOTH} tanh_shrink".split():
    CASES[_name] = ({"X": _draw(3, 4)}, {}, "Out")


def _build(op_type: str) -> tuple[fluid.Program, list[Any], dict[str, Array]]:
    """A program of the sum of squared gradients of the operator, and its gradients."""
    inputs, attrs, result = CASES[op_type]
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        given = {}
        for slot, array in inputs.items():
            given[slot] = fluid.data(slot, list(array.shape), "float64")
            given[slot].stop_gradient = False
        block = main.global_block()
        slots = {
            "instance_norm": ("Y", "SavedMean", "SavedVariance"),
            "norm": ("Out", "Norm"),
            "reshape2": ("Out", "XShape"),
        }
        made = {slot: block.create_var(name=slot) for slot in slots.get(op_type, (result,))}
        block.append_op(
            type=op_type,
            inputs={slot: [var] for slot, var in given.items()},
            outputs={slot: [var] for slot, var in made.items()},
            attrs=attrs,
        )
        out = made[result]
        flow = fluid.data("flow", list(out.shape), "float64")
        flow.stop_gradient = False
        first = fluid.gradients(out, list(given.values()), target_gradients=[flow])
        squares = [fluid.layers.reduce_sum(fluid.layers.square(one)) for one in first]
        loss = fluid.layers.sums(squares)
        second = fluid.gradients(loss, [*given.values(), flow])
    shape = tuple(abs(size) for size in out.shape)
    return main, [loss, *second], {**inputs, "flow": _draw(*shape)}


@pytest.mark.parametrize("op_type", CASES)
def test_second_gradient(op_type: str) -> None:
    main, fetches, feed = _build(op_type)
    executor = fluid.Executor(fluid.CPUPlace())
    wanted = [var for var in fetches if var is not None]
    found = executor.run(main, feed=feed, fetch_list=wanted)
    assert f"{op_type}_grad_grad" in {op.type for op in main.global_block().ops}
    results = iter(found[1:])
    for name, var in zip(feed, fetches[1:], strict=True):
        slope = np.zeros_like(feed[name]) if var is None else next(results)
        for _ in range(3):
            direction = RANDOM.standard_normal(feed[name].shape)
            expected = _difference(executor, main, fetches[0], feed, name, direction)
            found_slope = float((slope * direction).sum())
            assert found_slope == pytest.approx(expected, rel=2e-5, abs=2e-6), name


def _difference(
    executor: fluid.Executor,
    main: fluid.Program,
    loss: Any,
    feed: dict[str, Array],
    name: str,
    direction: Array,
) -> float:
    """How fast the loss changes where one input moves in a direction."""
    step = 1e-5
    values = []
    for sign in (1.0, -1.0):
        moved = {**feed, name: feed[name] + sign * step * direction}
        (value,) = executor.run(main, feed=moved, fetch_list=[loss])
        values.append(float(value[0]))
    return (values[0] - values[1]) / (2 * step)


def test_penalty_on_the_gradient_by_one_input() -> None:
    """With weights kept out of the first gradient, those before them get what reaches them."""
    values = {"x": _draw(3, 4), "w": _draw(4, 5), "v": _draw(5, 1)}
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        given = [fluid.data(name, list(one.shape), "float64") for name, one in values.items()]
        for one in given:
            one.stop_gradient = False
        x, w, v = given
        score = fluid.layers.mul(fluid.layers.relu(fluid.layers.mul(x, w)), v)
        (slope,) = fluid.gradients(score, x, no_grad_set=["w", "v"])
        squares = fluid.layers.reduce_sum(fluid.layers.square(slope))
        loss = squares + fluid.layers.reduce_sum(score)
        wanted = fluid.gradients(loss, [w, v])
    found = fluid.Executor(fluid.CPUPlace()).run(main, feed=values, fetch_list=wanted)

    tensors = {name: torch.from_numpy(one).requires_grad_() for name, one in values.items()}
    hidden = torch.relu(tensors["x"] @ tensors["w"]) @ tensors["v"]
    (first,) = torch.autograd.grad(hidden.sum(), tensors["x"], create_graph=True)
    (first.square().sum() + hidden.sum()).backward()
    for name, one in zip("wv", found, strict=True):
        expected = tensors[name].grad
        assert expected is not None
        np.testing.assert_allclose(one, expected.numpy(), rtol=1e-10)


def test_every_gradient_has_a_variable() -> None:
    """Those of the parts of a sum too, whose names have two endings."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [2, 3])
        x.stop_gradient = False
        (first,) = fluid.gradients(fluid.layers.reduce_sum(x * x * x), x)
        fluid.gradients(fluid.layers.reduce_sum(first * first), x)
    block = main.global_block()
    named = {name for op in block.ops for name in op.output_arg_names}
    assert named - {"@EMPTY@"} <= set(block.vars)
