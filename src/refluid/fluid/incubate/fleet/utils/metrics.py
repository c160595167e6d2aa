"""Metrics of clicks over all workers, of what `auc` and `ctr_metric_bundle` keep."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

METRICS = (
    *("auc", "bucket_error", "mae", "rmse", "actual_ctr", "predicted_ctr", "copc"),
    *("mean_q", "samples"),
)
_BUCKETS = 100


def area(positive: Any, negative: Any) -> float:
    """The area under the ROC curve of counts by bucket of prediction; 0.5 without both kinds."""
    ups, downs = (np.cumsum(one.reshape(-1)[::-1]) for one in (positive, negative))
    if not ups.size or not ups[-1] * downs[-1]:
        return 0.5
    heights = np.concatenate([[0.0], ups])
    widths = np.diff(np.concatenate([[0.0], downs]))
    return float(np.sum(widths * (heights[1:] + heights[:-1]) / 2) / (ups[-1] * downs[-1]))


def global_metrics(
    positive: Any,
    negative: Any,
    squared: Any,
    absolute: Any,
    predicted: Any,
    q: Any,
    clicks: Any,
    samples: Any,
) -> list[float]:
    """`METRICS` of sums over all samples. Quotients by nothing are 0."""
    total, clicked, sum_predicted = (float(np.sum(one)) for one in (samples, clicks, predicted))
    mean = [float(np.sum(one)) / max(total, 1.0) for one in (absolute, squared, q)]
    return [
        area(positive, negative),
        bucket_error(positive.reshape(-1), negative.reshape(-1)),
        mean[0],
        math.sqrt(mean[1]),
        clicked / max(total, 1.0),
        sum_predicted / max(total, 1.0),
        clicked / sum_predicted if sum_predicted else 0.0,
        mean[2],
        total,
    ]


def bucket_error(positive: Any, negative: Any) -> float:
    """How far click rates are from predictions, relative to these: the samples' mean by 100ths."""
    shown = positive + negative
    predictions = (np.arange(len(shown)) + 0.5) / max(1, len(shown))
    group = np.minimum((predictions * _BUCKETS).astype(int), _BUCKETS - 1)
    counts, clicks, sums = (
        np.bincount(group, weights, _BUCKETS) for weights in (shown, positive, shown * predictions)
    )
    there = counts > 0
    errors = np.abs(clicks[there] - sums[there]) / sums[there]
    return float(np.average(errors, weights=counts[there])) if there.any() else 0.0
