"""Fleets of Paddle 2 with parameter servers: those of Fluid 1.x, asked for by Paddle 2's names."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    DistributedTranspiler,
    StrategyFactory,
    distributed_strategy,
)
from refluid.ir.program import Program
from refluid.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from refluid.paddle.distributed.fleet.base.optimizing import FleetOptimizer
from refluid.paddle.distributed.fleet.base.wrapping import complaints, wrapped

_log = logging.getLogger("refluid")
# They are about exchanges between workers.
_WITHOUT_SERVERS = ("localsgd", "adaptive_localsgd", "dgc", "sharding", "gradient_merge")
# Of a_sync_configs: how asynchronous gradients are merged and sent.
_SENDING = (
    "max_merge_var_num",
    "send_queue_size",
    "independent_recv_thread",
    "min_send_grad_num_before_recv",
    "thread_pool_size",
    "send_wait_times",
)
_REDUCED: dict[str, Callable[..., Any]] = {"sum": np.sum, "max": np.max, "min": np.min}


class ServedFleet(DistributedTranspiler):
    """Workers and servers of a job."""

    def shrink(self, passes: int | None) -> int:
        """Ends a pass of all tables; how many rows servers forgot. passes: as of `SparseTable`."""
        from refluid.pserver.passes import end_pass

        return end_pass(self._connection().link.client, passes)


class ServedOptimizer(FleetOptimizer):
    """Has servers do the updates of the user's optimizer."""

    def minimize(
        self,
        loss: Any,
        startup_program: Program | None = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """As of the user's optimizer; the loss's program is a worker's, or a server's, then.

        NotImplementedError where the strategy asks for what servers don't do.
        """
        strategy, optimizer = self.user_defined_strategy, self.user_defined_optimizer
        for line in complaints(strategy):
            _log.warning(line)
        asked = [name for name in _WITHOUT_SERVERS if getattr(strategy, name)]
        if asked:
            raise NotImplementedError(
                f"DistributedStrategy.{asked[0]} is about workers without servers: "
                "fleet.init(is_collective=True)"
            )
        if hasattr(getattr(optimizer, "_learning_rate", None), "step"):
            raise NotImplementedError(
                "servers know learning rates that are numbers or made by the program "
                "(fluid.layers.exponential_decay and its like), and not a schedule that the "
                f"worker steps: {type(optimizer._learning_rate).__name__}"
            )
        inner = wrapped(optimizer, strategy, 1)
        made = self._fleet._servers.distributed_optimizer(inner, waiting(strategy))
        return made.minimize(loss, None, startup_program, parameter_list, no_grad_set)


def waiting(strategy: DistributedStrategy) -> distributed_strategy.DistributedStrategy:
    """How workers wait: for all others, not at all, or by exchanges every k_steps."""
    configs = strategy.a_sync_configs
    if not strategy.a_sync:
        return StrategyFactory.create_sync_strategy()
    if configs["k_steps"] > 0:
        return StrategyFactory.create_geo_strategy(configs["k_steps"])
    made = StrategyFactory.create_async_strategy()
    made.set_trainer_runtime_config({name: configs[name] for name in _SENDING})
    return made


class RoleThroughServers:
    """A role maker whose workers exchange values through the servers, for `fleet.util`.

    ValueError for another comm_world, NotImplementedError for one with servers in it.
    """

    def __init__(self, role_maker: Any, fleet: ServedFleet) -> None:
        self._role_maker, self._fleet = role_maker, fleet

    def __getattr__(self, name: str) -> Any:
        return getattr(self._role_maker, name)

    def _barrier(self, comm_world: str = "worker") -> None:
        _require_workers(comm_world)
        self._fleet.barrier_worker()

    def _all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:
        _require_workers(comm_world)
        if mode not in _REDUCED:
            raise ValueError(f"mode must be sum, max or min, not {mode!r}")
        return _REDUCED[mode](self._fleet._gathered(np.asarray(input)), axis=0)

    def _all_gather(self, input: Any, comm_world: str = "worker") -> list[Any]:
        _require_workers(comm_world)
        text = json.dumps(input).encode()
        return [json.loads(one.tobytes()) for one in self._fleet._gathered(_bytes(text))]


def _bytes(text: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(text, np.uint8)


def _require_workers(comm_world: str) -> None:
    if comm_world not in ("worker", "server", "all"):
        raise ValueError(f"comm_world must be worker, server or all, not {comm_world!r}")
    if comm_world != "worker":
        raise NotImplementedError(
            f"comm_world={comm_world!r}: servers hold tables and exchange nothing with each other"
        )
