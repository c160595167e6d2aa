"""The grid in which a fleet's workers train, as the strategy of `init` says."""

from __future__ import annotations

from typing import Any

from refluid.fluid.incubate.fleet.base.asking import AsksRoleMaker
from refluid.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from refluid.paddle.distributed.fleet.base.topology import HybridCommunicateGroup, hybrid_group

__all__ = ["FleetGrid"]


class FleetGrid(AsksRoleMaker):
    """Degrees that say something are groups when the fleet begins, others when they are asked for.

    All workers must ask.
    """

    _is_collective = False
    _user_strategy: DistributedStrategy | None = None
    _hybrid: HybridCommunicateGroup | None = None

    def get_hybrid_communicate_group(self) -> HybridCommunicateGroup:
        """The groups of workers that `hybrid_configs` of `init`'s strategy ask for."""
        self._role()
        if self._hybrid is None:
            self._hybrid = self._grid()
        return self._hybrid

    def _settle(self) -> None:
        """The fleet begins anew."""
        self._hybrid = self._grid() if self._degrees() else None

    def _degrees(self) -> dict[str, Any]:
        """What the strategy of `init` says of the workers' grid, where it says something."""
        strategy = self._user_strategy
        if strategy is None or not self._is_collective:
            return {}
        said: dict[str, Any] = strategy._set.get("hybrid_configs", {})
        return said

    def _grid(self) -> HybridCommunicateGroup:
        said = self._degrees()
        return hybrid_group(**{name.removesuffix("_degree"): one for name, one in said.items()})
