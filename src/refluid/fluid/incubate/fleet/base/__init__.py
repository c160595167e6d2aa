"""`fluid.incubate.fleet.base`: what each process is, and what all fleets have."""

from refluid.fluid.incubate.fleet.base import fleet_base, mode, role_maker

__all__ = ["fleet_base", "mode", "role_maker"]
