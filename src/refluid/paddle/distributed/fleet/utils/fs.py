"""`paddle.distributed.fleet.utils.fs`: file systems that checkpoints are kept in."""

from refluid.fluid.incubate.fleet.files import FS, LocalFS

__all__ = ["FS", "LocalFS"]
