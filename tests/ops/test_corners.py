"""Numbers in the corners: ranks, ties, integers and attributes outside of the usual, as Fluid's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from refluid.core.errors import EnforceNotMet
from refluid.ops.loss.crossentropy import (
    sigmoid_cross_entropy_with_logits,
    sigmoid_cross_entropy_with_logits_grad,
)
from refluid.ops.tensor.joining import concat_grad
from tests.ops.running import Array, run_op

RANDOM = np.random.RandomState(5)


def _floats(*shape: int, low: float = 0.2, high: float = 2.0) -> Array:
    return RANDOM.uniform(low, high, shape).astype("float32")


@pytest.mark.parametrize("op_type", ["add", "sub", "mul", "div", "max", "min"])
@pytest.mark.parametrize(
    "x_shape, y_shape, axis, aligned",
    [
        ((2, 3), (2, 3, 4), 0, (2, 3, 1)),
        ((3,), (2, 3, 4), 1, (1, 3, 1)),
        ((4,), (2, 3, 4), -1, (1, 1, 4)),
        ((2, 1, 4), (1, 3, 4), -1, (2, 1, 4)),
    ],
)
def test_the_operand_of_lower_rank_is_broadcast(
    op_type: str,
    x_shape: tuple[int, ...],
    y_shape: tuple[int, ...],
    axis: int,
    aligned: tuple[int, ...],
) -> None:
    x, y = _floats(*x_shape), _floats(*y_shape)
    attrs = {"axis": axis}
    plain = run_op(f"elementwise_{op_type}", {"X": x, "Y": y}, attrs, gradients=["X", "Y"])
    full = np.broadcast_to(x.reshape(aligned), np.broadcast_shapes(aligned, y_shape))
    wide = np.broadcast_to(y, full.shape)
    same = run_op(f"elementwise_{op_type}", {"X": full, "Y": wide}, {}, gradients=["X", "Y"])
    np.testing.assert_allclose(plain["Out"], same["Out"], rtol=1e-6)
    added = tuple(place for place, size in enumerate(aligned) if size != full.shape[place])
    summed = same["X@GRAD"].sum(added, keepdims=True).reshape(x_shape)
    np.testing.assert_allclose(plain["X@GRAD"], summed, rtol=1e-5)
    assert plain["Y@GRAD"].shape == y_shape


@pytest.mark.parametrize("op_type", ["pow", "mod"])
def test_powers_and_remainders_exchange_an_x_of_lower_rank(op_type: str) -> None:
    x, y = _floats(4), _floats(2, 3, 4)
    found = run_op(f"elementwise_{op_type}", {"X": x, "Y": y})["Out"]
    expected = y**x if op_type == "pow" else np.mod(y, x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_gradients_of_exchanged_powers_are_those_of_x_to_the_y() -> None:
    x, y = _floats(4), _floats(2, 3, 4)
    found = run_op("elementwise_pow", {"X": x, "Y": y}, gradients=["X", "Y"])
    slope = np.cos(found["Out"])
    np.testing.assert_allclose(
        found["X@GRAD"], (slope * y * x ** (y - 1)).sum((0, 1)), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(found["Y@GRAD"], slope * np.log(x) * x**y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op_type", ["elementwise_max", "elementwise_min"])
def test_where_both_are_equal_y_gets_the_gradient(op_type: str) -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 1.0])
    found = run_op(op_type, {"X": x, "Y": y}, gradients=["X", "Y"])
    slope = np.cos(found["Out"])
    chosen = np.array([0.0, 0.0, 1.0 if op_type.endswith("max") else 0.0])
    np.testing.assert_allclose(found["X@GRAD"], slope * chosen)
    np.testing.assert_allclose(found["Y@GRAD"], slope * (1 - chosen))


def test_of_equal_channels_the_first_gets_the_gradient_of_maxout() -> None:
    x = np.array([1.0, 1.0, 2.0, 3.0]).reshape(1, 4, 1, 1)
    found = run_op("maxout", {"X": x}, {"groups": 2}, gradients=["X"])["X@GRAD"]
    np.testing.assert_allclose(found.ravel(), [np.cos(1.0), 0.0, 0.0, np.cos(3.0)])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_divide_as_in_c(dtype: str) -> None:
    inputs = {"X": np.array([-7, 7, -7, 6], dtype), "Y": np.array([2, -2, -2, 3], dtype)}
    for op_type, expected in {
        "elementwise_div": [-3, -3, 3, 2],
        "elementwise_floordiv": [-3, -3, 3, 2],
        "elementwise_mod": [-1, 1, -1, 0],
    }.items():
        found = run_op(op_type, inputs)["Out"]
        assert found.dtype == dtype and found.tolist() == expected, op_type


@pytest.mark.parametrize(
    "op_type, attrs, expected",
    [
        ("exp", {}, [0, 1, 2, 20]),
        ("pow", {"factor": 2.9}, [1, 0, 1, 9]),
        ("square", {}, [1, 0, 1, 9]),
        ("abs", {}, [1, 0, 1, 3]),
        ("reduce_mean", {"dim": [0]}, [0]),
        ("reduce_sum", {"dim": [0]}, [3]),
        ("reduce_prod", {"dim": [0]}, [0]),
        ("cumsum", {}, [-1, -1, 0, 3]),
        ("scale", {"scale": 1.5, "bias": 0.7}, [-1, 0, 1, 3]),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_stay_integers(
    op_type: str, attrs: Mapping[str, Any], expected: list[int], dtype: str
) -> None:
    found = run_op(op_type, {"X": np.array([-1, 0, 1, 3], dtype)}, attrs)["Out"]
    assert found.dtype == dtype and found.tolist() == expected


@pytest.mark.parametrize(
    "op_type, attrs, out, slope",
    [
        ("leaky_relu", {"alpha": 1.5}, [-2.0, -1.0, 1.5, 3.0], [1.5, 1.5, 1.0, 1.0]),
        ("hard_shrink", {"threshold": -1.5}, [-2.0, -2.0, 2.0, 2.0], [1.0, 2.0, 2.0, 1.0]),
        ("softshrink", {"lambda": -1.5}, [-3.5, -2.0, 2.0, 3.5], [1.0, 2.0, 2.0, 1.0]),
        (
            "hard_swish",
            {"threshold": 2.0, "scale": 4.0, "offset": 1.5},
            [0.0, -0.125, 0.5, 1.0],
            [0.0, -0.125, 1.0, 1.0],
        ),
        (
            "selu",
            {"scale": 2.0, "alpha": -1.0},
            [-2.0 * np.expm1(-2), -2.0 * np.expm1(-1), 2.0, 4.0],
            [2.0, 2.0, 2.0, 2.0],
        ),
        ("elu", {"alpha": -1.0}, [0.0, 0.0, 1.0 - np.expm1(1), 2.0 - np.expm1(2)], None),
    ],
)
def test_activations_outside_of_usual_attributes(
    op_type: str, attrs: Mapping[str, Any], out: list[float], slope: list[float] | None
) -> None:
    x = np.array([-2.0, -1.0, 1.0, 2.0])
    found = run_op(op_type, {"X": x}, attrs, gradients=["X"])
    np.testing.assert_allclose(found["Out"], out, atol=1e-7)
    if slope is not None:
        np.testing.assert_allclose(found["X@GRAD"], np.cos(out) * slope, atol=1e-7)
    else:
        np.testing.assert_allclose(found["X@GRAD"][2:], np.cos(out[2:]))


@pytest.mark.parametrize(
    "row, k, expected",
    [
        ([1, 2, 2, 1, 2, 0], 3, [4, 1, 2]),
        ([1, 2, 2, 1], 2, [2, 1]),
        ([1, 2, 2, 1], 3, [2, 1, 0]),
        ([1, 2, 2, 1], 1, [1]),
        ([3, 1, 2, 0], 3, [0, 2, 1]),
    ],
)
def test_equal_elements_come_in_the_order_of_a_partial_sort(
    row: list[float], k: int, expected: list[int]
) -> None:
    found = run_op("top_k", {"X": np.array([row], "float32")}, {"k": k})
    assert found["Indices"].tolist() == [expected]
    assert found["Out"].tolist() == [[row[place] for place in expected]]


@pytest.mark.parametrize("overwrite", [True, False])
def test_rows_that_scatter_replaces_get_their_gradient_too(overwrite: bool) -> None:
    inputs = {"X": _floats(4, 2), "Ids": np.array([1, 3]), "Updates": _floats(2, 2)}
    attrs = {"overwrite": overwrite}
    found = run_op("scatter", inputs, attrs, gradients=["X", "Updates"])
    np.testing.assert_allclose(found["X@GRAD"], np.cos(found["Out"]), rtol=1e-6)
    np.testing.assert_allclose(found["Updates@GRAD"], np.cos(found["Out"])[[1, 3]], rtol=1e-6)


@pytest.mark.parametrize(
    "op_type, scores, out",
    [
        ("cross_entropy", "X", "Y"),
        ("cross_entropy2", "X", "Y"),
        ("softmax_with_cross_entropy", "Logits", "Loss"),
    ],
)
@pytest.mark.parametrize("ignored", [-100, 1])
def test_labels_of_the_ignored_index_count_for_nothing(
    op_type: str, scores: str, out: str, ignored: int
) -> None:
    x = _floats(3, 4, high=0.9)
    label = np.array([[0], [ignored], [3]])
    attrs = {} if ignored == -100 else {"ignore_index": ignored}
    found = run_op(op_type, {scores: x, "Label": label}, attrs, gradients=[scores], of=out)
    assert found[out][1] == 0.0 and (found[out][[0, 2]] > 0).all()
    assert not found[f"{scores}@GRAD"][1].any() and found[f"{scores}@GRAD"][0].any()


def test_without_a_label_that_counts_a_normalised_entropy_is_none() -> None:
    inputs = {"X": _floats(2, 3), "Label": np.full((2, 3), -100.0, "float32")}
    attrs = {"normalize": True}
    found = run_op("sigmoid_cross_entropy_with_logits", inputs, attrs, gradients=["X"])
    assert np.isnan(found["Out"]).all() and np.isnan(found["X@GRAD"]).all()


def test_labels_of_bce_loss_may_lie_beyond_0_and_1() -> None:
    x, label = np.array([[0.3], [0.2]]), np.array([[1.5], [-0.5]])
    found = run_op("bce_loss", {"X": x, "Label": label}, gradients=["X"])
    expected = -label * np.log(x) - (1 - label) * np.log(1 - x)
    np.testing.assert_allclose(found["Out"], expected)
    np.testing.assert_allclose(found["X@GRAD"], np.cos(expected) * (x - label) / (x - x * x))
    with pytest.raises(EnforceNotMet, match="between 0 and 1"):
        run_op("bce_loss", {"X": label, "Label": x})


def test_the_area_under_a_pr_curve_is_that_under_the_roc_curve() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.6], "float32")
    inputs = {
        "Predict": np.stack([1 - scores, scores], 1),
        "Label": np.array([[1], [0], [1], [0]]),
        "StatPos": np.zeros((1, 16), "int64"),
        "StatNeg": np.zeros((1, 16), "int64"),
    }
    attrs = {"curve": "PR", "num_thresholds": 15, "slide_steps": 0}
    assert run_op("auc", inputs, attrs)["AUC"].tolist() == [0.75]


@pytest.mark.parametrize("updates, window, kept", [(2, 0.5, True), (3, 0.5, False), (9, 0.7, True)])
def test_the_window_of_averages_is_a_whole_number(updates: int, window: float, kept: bool) -> None:
    """Of `updates` + 1 updates a share of `window`, cut; `updates` // 2 + 1 are held."""
    held = int(np.float32(updates + 1) * np.float32(window)) - (0 if kept else 2)
    inputs = {
        "param": np.ones(1, "float32"),
        **{f"in_sum_{place}": np.zeros(1, "float32") for place in (1, 2, 3)},
        "in_num_accumulates": np.array([max(held - 1, 0)]),
        "in_old_num_accumulates": np.array([0]),
        "in_num_updates": np.array([updates]),
    }
    attrs = {"average_window": window, "max_average_window": 100, "min_average_window": 1}
    found = run_op("average_accumulates", inputs, attrs)
    assert found["out_sum_3"].tolist() == [1.0 if kept else 0.0]


@pytest.mark.parametrize("op_type", ["cross_entropy", "cross_entropy2"])
def test_a_label_of_probability_0_costs_1e20(op_type: str) -> None:
    inputs = {"X": np.array([[0.0, 1.0]], "float32"), "Label": np.array([[0]])}
    assert run_op(op_type, inputs)["Y"].tolist() == [[np.float32(1e20)]]


def test_classes_of_probability_0_count_by_their_share() -> None:
    inputs = {"X": np.array([[0.0, 1.0]]), "Label": np.array([[0.0, 1.0]])}
    assert run_op("cross_entropy", inputs, {"soft_label": True})["Y"].tolist() == [[0.0]]


def test_labels_are_ignored_by_their_whole_part() -> None:
    labels = np.array([[0.3, 1.3, -0.4, 1.0, 2.0]], "float32")
    inputs = {"X": np.full((1, 5), 0.5, "float32"), "Label": labels}
    for index, ignored in ((0, [0, 2]), (1, [1, 3])):
        attrs = {"ignore_index": index}
        found = run_op("sigmoid_cross_entropy_with_logits", inputs, attrs, gradients=["X"])
        for value in (found["Out"], found["X@GRAD"]):
            assert np.flatnonzero(value == 0).tolist() == ignored
    x, label = torch.full((1, 5), 0.5), torch.from_numpy(labels)
    forward, backward = sigmoid_cross_entropy_with_logits, sigmoid_cross_entropy_with_logits_grad
    for made in (partial(forward, x, label), partial(backward, x, label, torch.ones(1, 5))):
        whole, normal = (made(ignore_index=1, normalize=one) for one in (False, True))
        torch.testing.assert_close(normal * 4, whole)  # all but 1.0 itself count


def test_concat_leaves_out_ones_at_the_end() -> None:
    """As in Fluid all inputs have the rank of the first."""
    x, y = np.arange(6, dtype="f4").reshape(2, 3), np.float32([[[[7]]], [[[8]]]])
    found = run_op("concat", {"X": [x, y]}, {"axis": 1})
    np.testing.assert_array_equal(found["Out"], [[0, 1, 2, 7], [3, 4, 5, 8]])
    given = [torch.from_numpy(one) for one in (x, y)]
    parts = concat_grad(given, None, torch.from_numpy(found["Out"]), axis=-1)
    assert all(part.equal(one) for part, one in zip(parts, given, strict=True))
    with pytest.raises(EnforceNotMet):
        run_op("concat", {"X": [x, np.ones((2, 1, 2), "f4")]}, {"axis": 1})
