"""Which samples come next, and which of them are a batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from refluid.feed.datasets import BatchSampler as FluidBatchSampler
from refluid.fluid.dygraph.parallel import ParallelEnv


class Sampler:
    """Base of samplers: iterating one gives numbers of samples."""

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.data_source)


class SequenceSampler(Sampler):
    """All samples in order."""

    def __init__(self, data_source: Any) -> None:
        super().__init__(data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))


class RandomSampler(Sampler):
    """Samples at random. replacement: one may come again. num_samples: so many instead of all."""

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        super().__init__(data_source)
        if not isinstance(replacement, bool):
            raise TypeError(f"expect boolean value for replacement, but got {replacement!r}")
        self.replacement, self._num_samples, self.generator = replacement, num_samples, generator

    @property
    def num_samples(self) -> int:
        """How many samples a pass has."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        if self.generator is not None:
            yield from (next(self.generator) for _ in range(self.num_samples))
            return
        count = len(self.data_source)
        chosen = np.random.choice(np.arange(count), self.num_samples, replace=self.replacement)
        yield from chosen.tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Some samples, in a random order."""

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__()
        if len(indices) == 0:
            raise ValueError("The length of `indices` should be greater than 0.")
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        return iter([self.indices[place] for place in np.random.permutation(len(self.indices))])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Samples drawn with probabilities in proportion to weights."""

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True) -> None:
        super().__init__()
        if not isinstance(num_samples, int) or num_samples <= 0:
            raise ValueError("num_samples should be a positive integer")
        self.weights = np.asarray(weights, dtype="float64")
        if not replacement and num_samples > (self.weights > 0).sum():
            raise ValueError("num_samples should not be more than there are positive weights")
        self.num_samples, self.replacement = num_samples, replacement

    def __iter__(self) -> Iterator[int]:
        shares = self.weights / self.weights.sum()
        chosen = np.random.choice(len(shares), self.num_samples, self.replacement, shares)
        return iter(chosen.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(FluidBatchSampler):
    """Lists of `batch_size` sample numbers: of `dataset`, or those that `sampler` gives."""

    def __init__(
        self,
        dataset: Any = None,
        sampler: Any = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        assert (dataset is None) != (sampler is None), "either dataset or sampler should be set"
        self.sampler = sampler
        if sampler is None:
            super().__init__(dataset, None, shuffle, batch_size, drop_last)
            return
        assert not shuffle, "shuffle should be False when sampler is set"
        super().__init__(None, [], False, batch_size, drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        if self.sampler is None:
            yield from super().__iter__()
            return
        batch: list[int] = []
        for one in self.sampler:
            batch.append(one)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        if self.sampler is None:
            return super().__len__()
        full, rest = divmod(len(self.sampler), self.batch_size)
        return full + (1 if rest and not self.drop_last else 0)


class DistributedBatchSampler(BatchSampler):
    """Batches of this trainer's share of a dataset; shares are of one length.

    shuffle: in an order that follows from the epoch, which `set_epoch` says; the same for all.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset, None, shuffle, batch_size, drop_last)
        env = ParallelEnv()
        self.dataset = dataset
        self.nranks = env.nranks if num_replicas is None else num_replicas
        self.local_rank = env.local_rank if rank is None else rank
        self.epoch = 0
        self.num_samples = math.ceil(len(dataset) / self.nranks)
        self.total_size = self.num_samples * self.nranks

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(len(self.dataset)))
        order += order[: self.total_size - len(order)]
        if self.shuffle:
            np.random.RandomState(self.epoch).shuffle(order)
            self.epoch += 1
        own = self._own(order)
        for start in range(0, len(own), self.batch_size):
            batch = own[start : start + self.batch_size]
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def _own(self, order: list[int]) -> list[int]:
        """This trainer's batches: in each round one for each trainer, the rest shared alike."""
        if self.nranks == 1:
            return order
        whole = self.total_size // (self.batch_size * self.nranks) * self.batch_size * self.nranks
        found: list[int] = []
        first = self.local_rank * self.batch_size
        for start in range(first, whole, self.batch_size * self.nranks):
            found += order[start : start + self.batch_size]
        rest = order[whole:]
        share = len(rest) // self.nranks
        return found + rest[self.local_rank * share : (self.local_rank + 1) * share]

    def __len__(self) -> int:
        full, rest = divmod(self.num_samples, self.batch_size)
        return full + (1 if rest and not self.drop_last else 0)

    def set_epoch(self, epoch: int) -> None:
        """Has the next pass's order follow from this number."""
        self.epoch = epoch
