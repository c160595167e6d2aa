"""`BatchSampler`, under the name it has in Fluid."""

from refluid.feed.datasets import BatchSampler

__all__ = ["BatchSampler"]
