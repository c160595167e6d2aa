"""`fluid.incubate.fleet`: training in several processes. So far only what each process is."""

from refluid.fluid.incubate.fleet import base

__all__ = ["base"]
