"""`fluid.contrib.reader`: readers for several trainers."""

from refluid.fluid.contrib.reader import distributed_reader
from refluid.fluid.contrib.reader.distributed_reader import distributed_batch_reader

__all__ = ["distributed_batch_reader", "distributed_reader"]
