"""`fluid.incubate`: what Fluid had not settled yet."""

from refluid.fluid.incubate import data_generator

__all__ = ["data_generator"]
