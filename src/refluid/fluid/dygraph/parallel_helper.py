"""`fluid.dygraph.parallel_helper`: what layers of users ask of processes that train together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refluid.comm.world import world


def _is_data_parallel_mode() -> bool:
    """Whether this process has joined others (`prepare_context`)."""
    return world().size > 1


def _broadcast_parameters(parameters: Iterable[Any]) -> None:
    """Overwrites the parameters with those of the first process."""
    if _is_data_parallel_mode():
        world().broadcast([one.tensor.detach() for one in parameters], 0)
