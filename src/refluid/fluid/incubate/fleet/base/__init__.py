"""`fluid.incubate.fleet.base`: what each process is."""

from refluid.fluid.incubate.fleet.base import role_maker

__all__ = ["role_maker"]
