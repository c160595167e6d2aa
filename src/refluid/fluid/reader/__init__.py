"""`fluid.reader`: loaders, which feed programs from Python while these run."""

from refluid.feed.datasets import default_collate_fn
from refluid.fluid.reader.base import DataLoaderBase
from refluid.fluid.reader.data_loader import DataLoader
from refluid.fluid.reader.generator_loader import DygraphGeneratorLoader, GeneratorLoader
from refluid.fluid.reader.py_reader import PyReader

__all__ = [
    "DataLoader",
    "DataLoaderBase",
    "DygraphGeneratorLoader",
    "GeneratorLoader",
    "PyReader",
    "default_collate_fn",
]
