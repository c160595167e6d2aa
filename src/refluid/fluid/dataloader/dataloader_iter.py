"""What Fluid keeps beside its loader's iterators."""

from refluid.feed.datasets import default_collate_fn, get_worker_info

__all__ = ["default_collate_fn", "get_worker_info"]
