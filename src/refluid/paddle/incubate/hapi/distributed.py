"""Batches of a dataset for each of several processes."""

from __future__ import annotations

from typing import Any

from refluid.feed.datasets import BatchSampler
from refluid.fluid.dygraph.parallel import ParallelEnv
from refluid.paddle.io import samplers

__all__ = ["DistributedBatchSampler"]

# What the module has beside what it is for.
_OTHERS = BatchSampler, ParallelEnv


class DistributedBatchSampler(samplers.DistributedBatchSampler):
    """Batches of this process's share of a dataset."""

    def __init__(
        self, dataset: Any, batch_size: int, shuffle: bool = False, drop_last: bool = False
    ) -> None:
        super().__init__(dataset, batch_size, shuffle=shuffle, drop_last=drop_last)
