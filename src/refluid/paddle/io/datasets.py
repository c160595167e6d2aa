"""Datasets made of others."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from refluid.feed.datasets import Dataset, IterableDataset


class TensorDataset(Dataset):
    """Rows of variables or arrays of as many rows."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        counts = {len(one) for one in tensors}
        if len(counts) != 1:
            raise ValueError("tensors not have same shape of the 1st dimension")
        self.tensors = tensors

    def __getitem__(self, index: int) -> Any:
        return tuple(one[index] for one in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class ComposeDataset(Dataset):
    """Samples of several datasets of one length, joined field by field."""

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = list(datasets)
        assert self.datasets, "input datasets should not be empty"
        assert len({len(one) for one in self.datasets}) == 1, "lengths of datasets should be same"

    def __getitem__(self, index: int) -> Any:
        found: list[Any] = []
        for one in self.datasets:
            sample = one[index]
            found += list(sample) if isinstance(sample, list | tuple) else [sample]
        return tuple(found)

    def __len__(self) -> int:
        return len(self.datasets[0])


class ChainDataset(IterableDataset):
    """Iterable datasets one after another."""

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = list(datasets)
        assert self.datasets, "input datasets should not be empty"

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)


class ConcatDataset(Dataset):
    """Datasets one after another."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        assert self.datasets, "datasets should not be an empty iterable"
        self.cumulative_sizes = list(itertools.accumulate(len(one) for one in self.datasets))

    def __getitem__(self, idx: int) -> Any:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        place = bisect.bisect_right(self.cumulative_sizes, idx)
        before = self.cumulative_sizes[place - 1] if place else 0
        return self.datasets[place][idx - before]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class Subset(Dataset):
    """The samples of a dataset at some places."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx: int) -> Any:
        return self.dataset[self.indices[idx]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[int], generator: Any = None) -> list[Subset]:
    """A dataset in parts of these lengths, at random."""
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = np.random.permutation(len(dataset)).tolist()
    ends = itertools.accumulate(lengths)
    parts = zip(ends, lengths, strict=True)
    return [Subset(dataset, order[end - length : end]) for end, length in parts]
