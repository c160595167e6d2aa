"""Gradients of images lie in memory as the images do, whatever order they come in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid import fluid
from refluid.core import flags
from refluid.kernels.epilogues import deactivate, deactivate_
from refluid.ops.registry import find

ORDERS = (torch.contiguous_format, torch.channels_last)
Gradient = Callable[[Tensor, Tensor], Tensor]


def _body(op_type: str, **settings: object) -> Gradient:
    definition = find(op_type)
    assert definition is not None
    assert definition.body is not None
    body = definition.body
    return lambda value, grad: body(value, grad, **settings)


def _over(value: Tensor, grad: Tensor) -> Tensor:
    (body,) = find("relu_grad").reusing.values()  # type: ignore[union-attr]
    made: Tensor = body(value, grad)
    return made


def _batch_norm(value: Tensor, grad: Tensor) -> Tensor:
    ones = torch.ones(value.shape[1])
    body = find("batch_norm_grad").body  # type: ignore[union-attr]
    made: Tensor = body(value, ones, ones, 0.1 * ones, ones, None, None, None, grad)[0]  # type: ignore[misc]
    return made


ALIKE: dict[str, Gradient] = {
    "relu": _body("relu_grad"),
    "relu over its gradient": _over,
    "relu6": _body("relu6_grad"),
    "leaky_relu": _body("leaky_relu_grad", alpha=0.1),
    "sigmoid": _body("sigmoid_grad"),
    "tanh": _body("tanh_grad"),
    "swish": _body("swish_grad"),
    "hard_swish": _body("hard_swish_grad"),
    "batch_norm": _batch_norm,
    "fused relu": lambda value, grad: deactivate(value, grad, "relu"),
    "fused tanh over its gradient": lambda value, grad: deactivate_(value, grad, "tanh"),
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ALIKE)
def test_gradients_follow_their_values(name: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    shape = tuple(int(size) for size in draw.integers(1, 9, 4))
    shape = (shape[0] + 1, *shape[1:])  # torch's batch norm refuses a single element
    value, grad = (torch.from_numpy(draw.random(shape, np.float32) * 2 - 1) for _ in "ab")
    wanted = ALIKE[name](value.clone(), grad.clone())
    for order in ORDERS:
        for given in ORDERS:
            laid = value.contiguous(memory_format=order)
            other = grad.contiguous(memory_format=given).clone(memory_format=given)
            found = ALIKE[name](laid, other)
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
            assert found.is_contiguous(memory_format=order)


@pytest.mark.parametrize("dim", [None, [1], [2, 3], [0, 2, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("op_type", ["mean", "reduce_mean", "reduce_sum"])
def test_gradients_of_reductions_follow_what_was_reduced(
    op_type: str, dim: list[int] | None
) -> None:
    draw = np.random.default_rng(1)
    x = torch.from_numpy(draw.random((3, 4, 5, 6), np.float32))
    everywhere = op_type == "mean" or dim is None
    settings = {} if op_type == "mean" else {"dim": dim or [0], "reduce_all": dim is None}
    sizes = [1] if everywhere else [n for at, n in enumerate(x.shape) if at not in (dim or ())]
    grad = torch.from_numpy(draw.random(sizes or [1], np.float32))
    spread = x.detach().clone().requires_grad_()
    if op_type == "reduce_sum":
        reduced = spread.sum() if everywhere else spread.sum(dim)
    else:
        reduced = spread.mean() if everywhere else spread.mean(dim)
    reduced.backward(grad.reshape(reduced.shape))
    for order in ORDERS:
        found = _body(f"{op_type}_grad", **settings)(x.contiguous(memory_format=order), grad)
        torch.testing.assert_close(found, spread.grad)
        assert found.is_contiguous(memory_format=order)


@pytest.mark.parametrize("head", ["mean", "fc", "slice", "transpose", "reshape"])
def test_networks_train_alike_in_both_orders(head: str) -> None:
    """Whatever hands gradients to channels-last images in plain order: the weights agree.

    In double precision, for rounding could move a number across the bend of a relu.
    """
    images = np.random.default_rng(2).random((4, 16, 12, 12))
    weights = []
    for layout in ("always", "never"):
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 3
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, 16, 12, 12], "float64")
            y = fluid.layers.conv2d(x, 16, 3, padding=1, act="relu")
            y = fluid.layers.batch_norm(fluid.layers.conv2d(y, 8, 3), act="leaky_relu")
            if head == "fc":
                y = fluid.layers.fc(y, 3, act="tanh")
            elif head == "slice":
                y = fluid.layers.slice(y, [2, 3], [1, 2], [9, 8])
            elif head == "transpose":
                y = fluid.layers.softmax(fluid.layers.transpose(y, [0, 2, 3, 1]))
            elif head == "reshape":
                y = fluid.layers.sigmoid(fluid.layers.reshape(y, [0, -1, 20]))
            fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(fluid.layers.square(y)))
        scope, executor = fluid.Scope(), fluid.Executor()
        with flags.override({"FLAGS_refluid_channels_last": layout}):
            executor.run(startup, scope=scope)
            for _ in range(5):
                executor.run(main, feed={"x": images}, scope=scope)
        names = [one.name for one in main.all_parameters()]
        weights.append([np.array(scope.find_var(name).get_tensor()) for name in names])
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)
