"""The optimizer of a fleet: that of the user, training with the other workers."""

from __future__ import annotations

import logging
from typing import Any

from refluid.build import at_once
from refluid.ir.defaults import default_startup_program
from refluid.ir.program import Program
from refluid.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from refluid.paddle.distributed.fleet.base.parted import grid_of, split
from refluid.paddle.distributed.fleet.base.running import together
from refluid.paddle.distributed.fleet.base.wrapping import complaints, wrapped

_log = logging.getLogger("refluid")


class FleetOptimizer:
    """What `fleet.distributed_optimizer` makes. All else is that of the user's optimizer.

    user_defined_optimizer, user_defined_strategy: what it was made of.
    """

    def __init__(self, fleet: Any, optimizer: Any, strategy: DistributedStrategy) -> None:
        if not hasattr(optimizer, "minimize"):
            raise TypeError(f"optimizer must be an instance of Optimizer, not {optimizer!r}")
        self._fleet = fleet
        self.user_defined_optimizer, self.user_defined_strategy = optimizer, strategy

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "user_defined_optimizer"), name)

    def minimize(
        self,
        loss: Any,
        startup_program: Program | None = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """As of the user's optimizer: (operators, (parameter, gradient) pairs).

        Running the loss's program trains with the other workers from then on. Fields of the
        strategy that have no effect are named in the log; NotImplementedError for those that
        refluid can't train by, ValueError where some exclude each other.
        """
        if at_once():
            return self.user_defined_optimizer.minimize(
                loss, startup_program, parameter_list, no_grad_set
            )
        strategy, workers = self.user_defined_strategy, self._fleet._workers()
        for line in complaints(strategy):
            _log.warning(line)
        if strategy.a_sync and self._fleet._is_collective:
            raise NotImplementedError(
                "DistributedStrategy.a_sync = True: collective training has no parameter servers; "
                "fleet.init() without is_collective has some"
            )
        main, startup = loss.block.program, startup_program or default_startup_program()
        grid = grid_of(strategy)
        inner = wrapped(self.user_defined_optimizer, strategy, workers.count)
        if strategy.pipeline:
            from refluid.paddle.distributed.fleet.base.pipelining import minimize_stage

            given = parameter_list, no_grad_set
            return minimize_stage(inner, strategy, workers, grid, loss, startup, *given)
        done = inner.minimize(loss, startup, parameter_list, no_grad_set)
        if grid is not None:
            split(main, startup, strategy, grid)
        run = together(strategy, workers, loss.name, main, startup, grid)
        main._run_as = None if run is main else run
        return done

    def step(self) -> None:
        """Updates by gradients that `backward` of the fleet's models has averaged over workers."""
        self.user_defined_optimizer.step()
