"""Layers that are several operators, or take variables as sizes, compute what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid.contrib.layers import columns, fused, trees

L = fluid.layers
RANDOM = np.random.RandomState(8)
X = RANDOM.standard_normal((3, 4)).astype("float32")
Y = RANDOM.standard_normal((3, 4)).astype("float32")
IMAGES = RANDOM.standard_normal((2, 3, 4, 6)).astype("float32")


def _run(build: Callable[..., Any], *feeds: np.ndarray) -> list[Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        given = [
            fluid.data(f"in{place}", [None, *one.shape[1:]], str(one.dtype))
            for place, one in enumerate(feeds)
        ]
        made = build(*given)
    executor = fluid.Executor(fluid.CPUPlace())
    feed = {f"in{place}": one for place, one in enumerate(feeds)}
    fetches = list(made) if isinstance(made, list | tuple) else [made]
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        return executor.run(main, feed=feed, fetch_list=fetches)


def _softmax(x: np.ndarray) -> np.ndarray:
    shifted = np.exp(x - x.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def _nearest(size: int, wanted: int) -> np.ndarray:
    return np.floor(np.arange(wanted) * (size - 1) / (wanted - 1) + 0.5).astype(int)


def _dice(x: np.ndarray, label: np.ndarray) -> np.ndarray:
    hot = np.eye(x.shape[-1])[label[:, 0]]
    return np.mean(1 - 2 * (x * hot).sum(1) / (x.sum(1) + hot.sum(1) + 1e-5)).reshape(1)


CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], Callable[..., Any]]] = {
    "logsumexp": (L.logsumexp, (X,), lambda x: np.log(np.exp(x).sum()).reshape(1)),
    "logsumexp of rows": (
        lambda x: L.logsumexp(x, dim=1, keepdim=True),
        (X,),
        lambda x: np.log(np.exp(x).sum(1, keepdims=True)),
    ),
    "clamp": (lambda x: L.clamp(x, min=-0.5, max=0.5), (X,), lambda x: np.clip(x, -0.5, 0.5)),
    "clamp above": (lambda x: L.clamp(x, max=0.1), (X,), lambda x: np.minimum(x, 0.1)),
    "addcmul": (lambda x, y: L.addcmul(x, x, y, value=0.5), (X, Y), lambda x, y: x + 0.5 * x * y),
    "t": (L.t, (X,), np.transpose),
    "dot": (L.dot, (X, Y), lambda x, y: (x * y).sum(1, keepdims=True)),
    "cos_sim": (
        L.cos_sim,
        (X, Y),
        lambda x, y: (
            (x * y).sum(1, keepdims=True)
            / np.linalg.norm(x, axis=1, keepdims=True)
            / np.linalg.norm(y, axis=1, keepdims=True)
        ),
    ),
    "log_softmax": (L.log_softmax, (X,), lambda x: np.log(_softmax(x))),
    "nonzero": (
        lambda x: L.nonzero(L.relu(x), as_tuple=True),
        (X,),
        lambda x: [one.reshape(-1, 1) for one in np.nonzero(x > 0)],
    ),
    "roll": (lambda x: L.roll(x, 5), (np.arange(12.0).reshape(3, 4),), lambda x: np.roll(x, 5)),
    "roll of rows": (lambda x: L.roll(x, -1, dims=0), (X,), lambda x: np.roll(x, -1, 0)),
    "multiplex": (
        lambda x, y: L.multiplex([x, y], L.assign(np.array([[1], [0], [1]], "int32"))),
        (X, Y),
        lambda x, y: np.stack([y[0], x[1], y[2]]),
    ),
    "image_resize_short": (
        lambda x: L.image_resize_short(x, 8, resample="NEAREST"),
        (IMAGES,),
        lambda x: x[:, :, _nearest(4, 8)][..., _nearest(6, 12)],
    ),
    "image_resize by variables": (
        lambda x: L.image_resize(
            x, out_shape=[L.fill_constant([1], "int32", 7), 11], resample="BILINEAR"
        ),
        (np.ones((1, 2, 3, 4), "float32"),),
        lambda x: np.ones((1, 2, 7, 11)),
    ),
    "dice_loss": (
        L.dice_loss,
        (_softmax(X), np.array([[1], [3], [0]], "int64")),
        _dice,
    ),
    "arange": (lambda: L.arange(1, 6, 2), (), lambda: np.array([1.0, 3.0, 5.0])),
    "full": (lambda: L.full([2, 3], 4, dtype="int32"), (), lambda: np.full((2, 3), 4)),
    "crop": (
        lambda x: L.crop(x, shape=[2, 2], offsets=[1, 1]),
        (X,),
        lambda x: x[1:3, 1:3],
    ),
    "fused add and relu": (
        lambda x, y: fused.fused_elemwise_activation(x, y, "elementwise_add,relu"),
        (X, Y),
        lambda x, y: x + np.maximum(y, 0),
    ),
    "partial_sum": (
        lambda x, y: columns.partial_sum([x, y], start_index=1, length=2),
        (X, Y),
        lambda x, y: x[:, 1:3] + y[:, 1:3],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_layer(case: str) -> None:
    build, feeds, formula = CASES[case]
    expected = formula(*feeds)
    expected = expected if isinstance(expected, list) else [expected]
    for found, wanted in zip(_run(build, *feeds), expected, strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_sizes_by_variables_are_known_where_numbers_are() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None, 3, 6, 10])
        out = L.resize_bilinear(x, out_shape=[12, L.fill_constant([1], "int32", 5)])
        assert tuple(out.shape) == (-1, 3, 12, -1)
        assert tuple(L.resize_nearest(x, scale=2.0).shape) == (-1, 3, 12, 20)


def test_tree_conv_layer_has_a_filter_and_a_bias() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        nodes, edges = (
            fluid.data("nodes", [None, 10, 5]),
            fluid.data("edges", [None, 9, 2], "int32"),
        )
        out = trees.tree_conv(nodes, edges, 6, num_filters=2, max_depth=2)
    assert tuple(out.shape) == (-1, 10, 6, 2)
    assert [op.type for op in main.global_block().ops] == ["tree_conv", "elementwise_add", "tanh"]
    shapes = {one.name: tuple(one.shape) for one in main.all_parameters()}
    assert shapes == {"tree_conv_0.w_0": (5, 3, 6, 2), "tree_conv_0.b_0": (10, 6, 2)}


def test_op_statistics() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        L.fc(L.fc(fluid.data("x", [None, 4]), 3), 2)
    single, pairs = fluid.contrib.op_freq_statistic(main)
    assert single == [("mul", 2), ("elementwise_add", 2)]
    assert dict(pairs) == {"mul->elementwise_add": 2, "elementwise_add->mul": 1}
    least, most, unit = fluid.contrib.memory_usage(main, batch_size=10)
    # Four results of 10 rows with 3, 3, 2 and 2 float32.
    assert unit == "B"
    assert least == pytest.approx(420.0)
    assert most == pytest.approx(440.0)
    with pytest.raises(ValueError, match="positive"):
        fluid.contrib.memory_usage(main, 0)
