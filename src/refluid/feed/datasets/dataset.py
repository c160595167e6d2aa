"""Base classes of datasets, and what a worker process can ask about itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class Dataset:
    """Samples by index: subclasses give `__getitem__` and `__len__`."""

    def __init__(self) -> None:
        pass

    def __getitem__(self, idx: int) -> Any:
        """The sample number `idx`: usually a tuple of arrays."""
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__(self, idx)")

    def __len__(self) -> int:
        """The number of samples."""
        raise NotImplementedError(f"{type(self).__name__} must define __len__(self)")


class IterableDataset(Dataset):
    """Samples in the order in which `__iter__` gives them.

    With worker processes each iterates its own copy: `get_worker_info` says which part to give.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__(self)")

    def __getitem__(self, idx: int) -> Any:
        raise TypeError(f"{type(self).__name__} is read in order and has no sample number {idx}")

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} doesn't know how many samples it has")


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker process this is: `id` of `num_workers`, and its copy of the dataset."""

    id: int
    num_workers: int
    dataset: Any


_current: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """What worker process the caller is in; None in the training process."""
    return _current


def become_worker(info: WorkerInfo) -> None:
    """Says from now on that this process is that worker."""
    global _current
    _current = info
