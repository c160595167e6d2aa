"""`paddle.distributed.fleet.utils`: file systems, and layers that are computed again."""

from typing import Any

from refluid.paddle.distributed.fleet.utils import fs
from refluid.paddle.distributed.fleet.utils.fs import LocalFS

__all__ = ["LocalFS", "fs", "recompute"]


def recompute(function: Any, *args: Any, **kwargs: Any) -> Any:
    """As `paddle.distributed.fleet.recompute.recompute`."""
    from refluid.paddle.distributed.fleet.recompute import recompute as computed_again

    return computed_again(function, *args, **kwargs)
