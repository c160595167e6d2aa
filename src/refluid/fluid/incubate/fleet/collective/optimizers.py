"""Optimizers of a collective fleet: the program exchanges gradients with the other workers."""

from __future__ import annotations

from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.fluid.compiler import CompiledProgram
from refluid.fluid.contrib.mixed_precision import decorate
from refluid.fluid.incubate.fleet.base.fleet_base import DistributedOptimizer
from refluid.fluid.incubate.fleet.collective.strategy import DistributedStrategy
from refluid.fluid.optimizer import RecomputeOptimizer
from refluid.fluid.transpiler import collective as transpilers
from refluid.ir.defaults import default_startup_program

__all__ = ["CollectiveOpBasedOptimizer", "CollectiveOptimizer"]

# Stands for one of its own for each optimizer.
_USUAL = DistributedStrategy()


class CollectiveOpBasedOptimizer(DistributedOptimizer):
    """Appends gradients and updates as the optimizer itself does."""

    def __init__(self, optimizer: Any, strategy: Any = None) -> None:
        if not (strategy is None or isinstance(strategy, DistributedStrategy)):
            raise EnforceNotMet(
                "In collective mode, strategy must be DistributedStrategy of "
                f"fluid.incubate.fleet.collective, not {type(strategy).__name__}"
            )
        super().__init__(optimizer, strategy)

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Any:
        return self._optimizer.backward(
            loss, startup_program, parameter_list, no_grad_set, callbacks
        )

    def apply_gradients(self, params_grads: Any) -> Any:
        return self._optimizer.apply_gradients(params_grads)

    def minimize(
        self,
        losses: Any,
        scopes: Any = None,
        startup_programs: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        return self._optimizer.minimize(losses, startup_programs, parameter_list, no_grad_set)


class CollectiveOptimizer(CollectiveOpBasedOptimizer):
    """Makes the loss's program one that all workers of the fleet train together.

    After `minimize` the fleet's main_program is that program with its strategies; running the
    loss's own program does the same.
    """

    def __init__(self, optimizer: Any, strategy: Any = _USUAL) -> None:
        if strategy is None or strategy is _USUAL:
            strategy = DistributedStrategy()
        super().__init__(optimizer, strategy)
        if strategy.use_dist_fc:
            raise NotImplementedError(
                "DistributedStrategy.use_dist_fc: refluid doesn't part a layer among workers"
            )
        if strategy.forward_recompute:
            self.forward_recompute = True
            self.recompute_checkpoints = strategy.recompute_checkpoints
        else:
            self.forward_recompute = False
        self.print_config = False

    def raiseOptimizeError(self, strategy_name: str, optimize_name: str) -> None:
        """ValueError: that strategy doesn't go with that optimizer."""
        raise ValueError(
            f"can not use {strategy_name} when you set DistributedStrategy to {optimize_name}"
        )

    def minimize(  # type: ignore[override]
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """As of the optimizer it is made of: (operators, (parameter, gradient) pairs)."""
        from refluid.fluid.incubate.fleet.collective import fleet

        strategy, main = self._strategy, loss.block.program
        startup = startup_program or default_startup_program()
        done = self._wrapped().minimize(loss, startup, parameter_list, no_grad_set)
        fleet._origin_program, fleet.startup_program = main, startup
        fleet.main_program = self._together(fleet, loss.name, main, startup)
        if strategy.mode != "collective" and fleet.worker_num() > 1:
            main._run_as = fleet.main_program
        return done

    def _wrapped(self) -> Any:
        """The optimizer with what the strategy asks for."""
        strategy, inner = self._strategy, self._optimizer
        if self.forward_recompute:
            inner = RecomputeOptimizer(inner)
            inner._set_checkpoints(self.recompute_checkpoints)
        if strategy.use_amp:
            inner = decorate(
                inner,
                init_loss_scaling=strategy.amp_loss_scaling,
                use_dynamic_loss_scaling=True,
            )
        return inner

    def _together(self, fleet: Any, loss: str, main: Any, startup: Any) -> Any:
        """The program that workers run."""
        strategy = self._strategy
        rank, size = fleet.worker_index(), fleet.worker_num()
        local = strategy.use_local_sgd or strategy.collective_mode == "local_sgd"
        if local or strategy.mode == "collective":
            kind = transpilers.LocalSGD if local else transpilers.GradAllReduce
            strategy.mode = "collective"
            strategy.collective_mode = "local_sgd" if local else "grad_allreduce"
            made = kind(strategy.nccl_comm_num)
            if isinstance(made, transpilers.LocalSGD):
                made.steps = strategy.local_sgd_steps
                made.warm_steps = strategy.local_sgd_is_warm_steps
            made.transpile(startup, main, rank, fleet.worker_endpoints(), None, False)
            return main
        strategy.num_trainers, strategy.trainer_id = size, rank
        strategy.trainers_endpoints = fleet.worker_endpoints() if size > 1 else []
        return CompiledProgram(main).with_data_parallel(
            loss_name=loss, build_strategy=strategy, exec_strategy=strategy.exec_strategy
        )
