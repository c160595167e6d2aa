"""Metrics in Python: recorded values of Fluid, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid import metrics
from tests.golden import GOLDEN, needs_golden


def _recorded(example: str) -> Any:
    path = GOLDEN / "values" / f"paddle.fluid.metrics.{example}-0.npz"
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] if file[name].ndim else file[name].item() for name in file.files}


@needs_golden
def test_precision_and_recall_are_fluids() -> None:
    kept = _recorded("CompositeMetric")
    both = metrics.CompositeMetric()
    both.add_metric(metrics.Precision())
    both.add_metric(metrics.Recall())
    both.update(preds=kept["preds"], labels=kept["labels"])
    assert both.eval() == pytest.approx([kept["numpy_precision"], kept["numpy_recall"]])
    both.reset()
    assert both.eval() == [0.0, 0.0]


@needs_golden
def test_chunk_counts_add_up_over_batches() -> None:
    # The recording's second batch; its first had 10, 9 and 8 chunks.
    kept = _recorded("ChunkEvaluator")
    metric = metrics.ChunkEvaluator()
    metric.update(10, 9, 8)
    names = ("num_infer_chunks", "num_label_chunks", "num_correct_chunks")
    metric.update(*(kept[name] for name in names))
    wanted = [kept["numpy_precision"], kept["numpy_recall"], kept["numpy_f1"]]
    assert metric.eval() == pytest.approx(wanted)


@needs_golden
def test_edit_distance_is_fluids() -> None:
    kept = _recorded("EditDistance")
    metric = metrics.EditDistance("distance")
    last = kept["edit_distances_batch2"], kept["seq_num_batch2"]
    metric.update(kept["edit_distances_batch0"], kept["seq_num_batch0"])
    metric.update(kept["edit_distances_batch1"], kept["seq_num_batch1"])
    metric.reset()
    metric.update(*last)
    assert metric.eval() == pytest.approx((kept["avg_distance"], kept["wrong_instance_ratio"]))


def test_accuracy_weighs_batches() -> None:
    metric = metrics.Accuracy()
    with pytest.raises(ValueError, match="no data"):
        metric.eval()
    metric.update(value=0.9, weight=10)
    metric.update(value=np.array([0.6]), weight=20)
    assert metric.eval() == pytest.approx(0.7)
    with pytest.raises(ValueError, match="negative"):
        metric.update(0.5, -1)


def test_auc_is_the_share_of_pairs_in_order() -> None:
    rng = np.random.default_rng(0)
    score, label = rng.random(200), rng.integers(0, 2, 200)
    metric = metrics.Auc("auc")
    for rows in (slice(0, 120), slice(120, 200)):
        columns = np.stack([1 - score[rows], score[rows]], axis=1)
        metric.update(preds=columns, labels=label[rows, None])
    positive, negative = score[label == 1], score[label == 0]
    pairs = np.mean(positive[:, None] > negative[None, :])
    assert metric.eval() == pytest.approx(pairs, abs=1e-3)
    metric.reset()
    assert metric.eval() == 0.0


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ([0.1, 0.9], "shape \\[2\\]"),
        ([[0.1], [0.9]], "both classes"),
        ([[0.5, 0.5]], "for 2 labels"),
        ([[1, -2], [0, 3]], "from 0 to 1"),
        ([[1, np.nan], [0, 1]], "from 0 to 1"),
    ],
)
def test_auc_says_what_scores_it_needs(scores: Any, words: str) -> None:
    with pytest.raises(IndexError, match=words):
        metrics.Auc("auc").update(np.array(scores), np.array([0, 1]))


def test_metrics_refuse_what_is_no_array() -> None:
    with pytest.raises(
        ValueError, match=r"Recall.update: preds has shape \[2, 2\] and labels \[2\]"
    ):
        metrics.Recall().update(np.eye(2), np.array([0, 1]))
    with pytest.raises(ValueError, match="numpy ndarray"):
        metrics.Precision().update([0.1], [1])
    with pytest.raises(ValueError, match="MetricBase"):
        metrics.CompositeMetric().add_metric(1)  # type: ignore[arg-type]


def test_weighted_average() -> None:
    average = fluid.average.WeightedAverage()
    with pytest.raises(ValueError, match="no data"):
        average.eval()
    average.add(value=2.0, weight=1)
    average.add(value=4.0, weight=2)
    assert average.eval() == pytest.approx(10 / 3)
    average.reset()
    average.add(np.array([1.0, 3.0]), np.array([2]))
    assert average.eval().tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match="weight"):
        average.add(1.0, "two")
