"""`fluid.incubate.fleet`: training in several processes."""

from refluid.fluid.incubate.fleet import base

__all__ = ["base"]
