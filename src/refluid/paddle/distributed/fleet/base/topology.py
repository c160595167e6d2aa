"""`paddle.distributed.fleet.base.topology`: workers as a grid, and the groups along its axes."""

from refluid.paddle.distributed.grid import CommunicateTopology
from refluid.paddle.distributed.topology import (
    HybridCommunicateGroup,
    ParallelMode,
    hybrid_group,
)

__all__ = ["CommunicateTopology", "HybridCommunicateGroup", "ParallelMode", "hybrid_group"]
