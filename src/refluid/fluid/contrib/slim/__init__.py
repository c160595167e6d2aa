"""`fluid.contrib.slim`: model compression by pruning, distillation, quantisation and search."""

from refluid.fluid.contrib.slim.core import Compressor, ConfigFactory, Context, Strategy

__all__ = ["Compressor", "ConfigFactory", "Context", "Strategy"]
