"""Datasets by index, the order in which they are read, and batches made of their samples."""

from refluid.feed.datasets.collate import default_collate_fn
from refluid.feed.datasets.dataset import Dataset, IterableDataset, WorkerInfo, get_worker_info
from refluid.feed.datasets.loading import Loading
from refluid.feed.datasets.sampler import BatchSampler

__all__ = [
    "BatchSampler",
    "Dataset",
    "IterableDataset",
    "Loading",
    "WorkerInfo",
    "default_collate_fn",
    "get_worker_info",
]
