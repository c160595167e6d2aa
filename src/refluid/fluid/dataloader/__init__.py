"""`fluid.dataloader`: datasets by index, and the samplers that choose batches."""

from refluid.fluid.dataloader import batch_sampler, dataloader_iter, dataset
from refluid.fluid.dataloader.batch_sampler import BatchSampler
from refluid.fluid.dataloader.dataset import Dataset, IterableDataset

__all__ = [
    "BatchSampler",
    "Dataset",
    "IterableDataset",
    "batch_sampler",
    "dataloader_iter",
    "dataset",
]
