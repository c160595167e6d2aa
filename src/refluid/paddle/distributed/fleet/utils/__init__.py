"""`paddle.distributed.fleet.utils`: file systems."""

from refluid.paddle.distributed.fleet.utils import fs
from refluid.paddle.distributed.fleet.utils.fs import LocalFS

__all__ = ["LocalFS", "fs"]
