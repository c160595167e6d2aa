"""`BatchSampler`: which samples make up each batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from refluid.feed.datasets.dataset import IterableDataset


class BatchSampler:
    """Lists of `batch_size` sample numbers: of `dataset` from 0 on, or the given `indices`.

    shuffle: in a new random order in each pass, drawn by `numpy.random`. drop_last: leaves out
    a last batch that is smaller. Raises AssertionError unless exactly one of `dataset` and
    `indices` is given, and for a batch size below 1.
    """

    def __init__(
        self,
        dataset: Any = None,
        indices: Sequence[int] | None = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        assert (dataset is None) != (indices is None), "set exactly one of dataset and indices"
        assert not isinstance(dataset, IterableDataset), (
            "an IterableDataset has no sample numbers to choose from"
        )
        assert isinstance(batch_size, int) and batch_size > 0, (
            f"batch_size should be a positive integer, but got {batch_size!r}"
        )
        assert isinstance(shuffle, bool), f"shuffle should be a bool, not {shuffle!r}"
        assert isinstance(drop_last, bool), f"drop_last should be a bool, not {drop_last!r}"
        self.indices = list(range(len(dataset)) if indices is None else indices)
        self.shuffle = shuffle
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        order = np.array(self.indices)
        if self.shuffle:
            np.random.shuffle(order)
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size].tolist()
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        """The number of batches of a pass."""
        full, rest = divmod(len(self.indices), self.batch_size)
        return full + (1 if rest and not self.drop_last else 0)
