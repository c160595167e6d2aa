"""Base classes of datasets, under the names they have in Fluid."""

from refluid.feed.datasets import Dataset, IterableDataset

__all__ = ["Dataset", "IterableDataset"]
