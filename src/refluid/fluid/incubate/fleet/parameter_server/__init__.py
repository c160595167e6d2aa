"""`fluid.incubate.fleet.parameter_server`: workers that train with servers of tables."""

from refluid.fluid.incubate.fleet.parameter_server import distribute_transpiler, pslib, version

__all__ = ["distribute_transpiler", "pslib", "version"]
