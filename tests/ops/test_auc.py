"""The area under the curve is the share of pairs that are in order, whichever batches count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from refluid.ops.metric.evaluation import auc

Batch = tuple[torch.Tensor, torch.Tensor]


def share_of_pairs(batches: Sequence[Batch], thresholds: int) -> float:
    """Of a positive and a negative sample; half where both are in one bucket."""
    places = np.concatenate([(one[:, -1] * thresholds).long().numpy() for one, _ in batches])
    labels = np.concatenate([label.reshape(-1).numpy() for _, label in batches]) != 0
    gaps = places[labels][:, None] - places[~labels][None, :]
    return float(((gaps > 0) + (gaps == 0) / 2).mean()) if gaps.size else 0.0


@pytest.mark.parametrize("seed", range(12))
def test_any_batches(seed: int) -> None:
    draws = np.random.default_rng(seed)
    thresholds, window = int(draws.choice([1, 7, 100, 4095])), int(draws.integers(0, 4))
    size = (thresholds + 1) * (window + 1) + 1 if window else thresholds + 1
    stats = [torch.zeros(1, size, dtype=torch.int64) for _ in range(2)]
    seen: list[Batch] = []
    for _ in range(6):
        rows = int(draws.integers(1, 30))
        scores = torch.from_numpy(draws.random((rows, 2)).astype("float32"))
        seen.append((scores, torch.from_numpy(draws.integers(0, 2, (rows, 1)))))
        area, *_ = auc(*seen[-1], *stats, num_thresholds=thresholds, slide_steps=window)
        counted = seen[-window:] if window else seen
        assert area.shape == (1,)
        assert area.dtype is torch.float64
        np.testing.assert_allclose(area.item(), share_of_pairs(counted, thresholds), rtol=1e-12)
