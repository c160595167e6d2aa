"""The loop that compresses a model, and the strategies that it calls."""

from refluid.fluid.contrib.slim.core.compressor import Compressor, Context
from refluid.fluid.contrib.slim.core.config import ConfigFactory
from refluid.fluid.contrib.slim.core.strategy import Strategy

__all__ = ["Compressor", "ConfigFactory", "Context", "Strategy"]
