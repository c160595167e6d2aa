"""Losses of one score per sample, and measures of rankings, against their formulas in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.running import check_gradient, run_op

RANDOM = np.random.RandomState(11)
SCORES = RANDOM.uniform(-3, 3, (9, 1))
LABELS = (RANDOM.uniform(size=(9, 1)) > 0.5).astype("float64")


def test_hinge_loss() -> None:
    found = run_op("hinge_loss", {"Logits": SCORES, "Labels": LABELS})["Loss"]
    np.testing.assert_allclose(found, np.maximum(0, 1 - (2 * LABELS - 1) * SCORES))
    check_gradient("hinge_loss", {"Logits": SCORES, "Labels": LABELS}, wrt=["Logits"])


def test_modified_huber_loss() -> None:
    inputs = {"X": SCORES, "Y": LABELS}
    found = run_op("modified_huber_loss", inputs)
    v = (2 * LABELS - 1) * SCORES
    expected = np.where(v < -1, -4 * v, np.maximum(0, 1 - v) ** 2)
    np.testing.assert_allclose(found["Out"], expected)
    np.testing.assert_allclose(found["IntermediateVal"], v)
    check_gradient("modified_huber_loss", inputs, wrt=["X"], of="Out")


def test_teacher_student_sigmoid_loss() -> None:
    x = np.array([[0.5], [-0.3], [1.2], [2.0], [20.0]])
    label = np.array([[-2.0], [-1.0], [0.4], [1.7], [0.4]])
    entropy = np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)
    expected = [
        entropy[0],
        entropy[1] - x[1],
        2 * entropy[2] - 0.4 * x[2],
        2 * entropy[3] - x[3] - 0.7 * x[3],
        2 * entropy[4] - 0.4 * x[4],
    ]
    inputs = {"X": x, "Label": label}
    found = run_op("teacher_student_sigmoid_loss", inputs, gradients=["X"])
    np.testing.assert_allclose(found["Y"], np.array(expected).reshape(5, 1))
    assert found["X@GRAD"][4] == 0.0
    inside = {"X": x[:4], "Label": label[:4]}
    check_gradient("teacher_student_sigmoid_loss", inside, wrt=["X"])


def test_squared_l2_distance() -> None:
    x = RANDOM.standard_normal((4, 3))
    for y in (RANDOM.standard_normal((4, 3)), RANDOM.standard_normal((1, 3))):
        found = run_op("squared_l2_distance", {"X": x, "Y": y})
        np.testing.assert_allclose(found["Out"], ((x - y) ** 2).sum(1, keepdims=True))
        np.testing.assert_allclose(found["sub_result"], x - y)
        check_gradient("squared_l2_distance", {"X": x, "Y": y}, wrt=["X", "Y"], of="Out")


def test_minus_is_differentiated_by_scaling() -> None:
    inputs = {"X": SCORES, "Y": LABELS}
    np.testing.assert_allclose(run_op("minus", inputs)["Out"], SCORES - LABELS)
    check_gradient("minus", inputs, wrt=["X", "Y"])


def test_positive_negative_pair() -> None:
    score = np.array([[0.9, 0.1], [0.8, 0.7], [0.3, 0.7], [0.2, 0.2]], "float32")
    label = np.array([[1.0], [0.0], [2.0], [0.0]], "float32")
    query = np.array([[5], [5], [5], [6]], "int64")
    weight = np.array([[1.0], [2.0], [3.0], [4.0]], "float32")
    former = np.array([10.0], "float32")
    inputs = {"Score": score, "Label": label, "QueryID": query}
    found = run_op("positive_negative_pair", inputs, {"column": 1})
    # Pairs of query 5 by the second column: (0, 1) wrong, (0, 2) right, (1, 2) equal.
    assert [found[f"{kind}Pair"][0] for kind in ("Positive", "Negative", "Neutral")] == [1, 1, 1]
    more = {"Weight": weight, "AccumulatePositivePair": former}
    found = run_op("positive_negative_pair", {**inputs, **more}, {"column": 1})
    assert [found[f"{kind}Pair"][0] for kind in ("Positive", "Negative", "Neutral")] == [
        12.0,
        1.5,
        2.5,
    ]


def test_precision_recall() -> None:
    chosen = np.array([[0], [1], [1], [2]], "int32")
    true = np.array([[0], [1], [0], [1]], "int32")
    inputs = {"MaxProbs": np.ones((4, 1), "float32"), "Indices": chosen, "Labels": true}
    found = run_op("precision_recall", inputs, {"class_number": 4})
    states = np.array([[1, 0, 2, 1], [1, 1, 1, 1], [0, 1, 3, 0], [0, 0, 4, 0]], "float32")
    np.testing.assert_array_equal(found["AccumStatesInfo"], states)
    # A class without cases counts 1 (class 3); class 2 was never right, so its precision is 0.
    precision, recall = np.mean([1, 0.5, 0, 1]), np.mean([0.5, 0.5, 1, 1])
    macro = [precision, recall, 2 * precision * recall / (precision + recall)]
    np.testing.assert_allclose(found["BatchMetrics"], [*macro, 0.5, 0.5, 0.5], rtol=1e-6)
    again = run_op("precision_recall", {**inputs, "StatesInfo": states}, {"class_number": 4})
    np.testing.assert_array_equal(again["AccumStatesInfo"], 2 * states)
    weighted = {**inputs, "Weights": np.full((4, 1), 0.5, "float32")}
    halved = run_op("precision_recall", weighted, {"class_number": 4})
    np.testing.assert_array_equal(halved["AccumStatesInfo"], states / 2)


@pytest.mark.parametrize("rows", [0, 3])
def test_smooth_l1_of_any_number_of_rows(rows: int) -> None:
    """A detector's second stage may have no box to learn from."""
    x = np.full((rows, 8), 3.0)
    found = run_op("smooth_l1_loss", {"X": x, "Y": np.ones_like(x)})
    assert found["Diff"].tolist() == [[2.0] * 8] * rows
    assert found["Out"].tolist() == [[12.0]] * rows
