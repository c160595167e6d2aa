"""The grid in which a fleet's workers train, as the strategy of `init` says."""

from __future__ import annotations

from typing import Any

from refluid.build import at_once
from refluid.fluid.incubate.fleet.base.asking import AsksRoleMaker
from refluid.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from refluid.paddle.distributed.topology import (
    HybridCommunicateGroup,
    grid_of_now,
    hybrid_group,
    set_grid,
)

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
            self._hybrid = grid_of_now()
        return self._hybrid

    def distributed_model(self, model: Any) -> Any:
        """A layer of dygraph that the workers train, as the degrees of `init`'s strategy say.

        A PipelineLayer has `train_batch` then; of others `backward` averages gradients over those
        who have the same part.
        """
        if not at_once():
            raise RuntimeError(
                "fleet.distributed_model takes a layer of dygraph: call paddle.disable_static() "
                "where the script begins, since functions append to programs until then"
            )
        from refluid.paddle.distributed.data_parallel import DataParallel
        from refluid.paddle.distributed.fleet.meta_parallel import (
            PipelineLayer,
            PipelineParallel,
            TensorParallel,
        )

        self._role()
        asked, grid = self._user_strategy or DistributedStrategy(), self._hybrid
        for axis in ("sharding_degree", "sep_degree"):
            if self._degrees().get(axis, 1) > 1:
                raise NotImplementedError(
                    f"hybrid_configs[{axis!r}] gives groups, but no way of training a layer by them"
                )
        if isinstance(model, PipelineLayer):
            return PipelineParallel(model, self.get_hybrid_communicate_group(), asked)
        if grid is not None and grid.get_pipe_parallel_world_size() > 1:
            raise TypeError("with pp_degree above 1 the model must be a PipelineLayer")
        options = {
            "comm_buffer_size": asked.fuse_grad_size_in_MB,
            "last_comm_buffer_size": asked.last_comm_group_size_MB,
            "find_unused_parameters": asked.find_unused_parameters,
        }
        if grid is None or grid.get_data_parallel_world_size() == grid.nranks:
            return DataParallel(model, **options)
        return TensorParallel(model, grid, **options)

    def _settle(self) -> None:
        """The fleet begins anew."""
        degrees = self._degrees()
        self._hybrid = self._grid() if degrees else None
        set_grid(self._hybrid)
        seed = (self._user_strategy or DistributedStrategy()).tensor_parallel_configs
        if degrees.get("mp_degree", 1) > 1 and at_once() and seed["tensor_init_seed"] >= 0:
            from refluid.paddle.distributed.fleet.meta_parallel.generators import (
                model_parallel_random_seed,
            )

            model_parallel_random_seed(seed["tensor_init_seed"])

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
