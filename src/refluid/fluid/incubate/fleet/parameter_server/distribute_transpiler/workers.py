"""`DistributedTranspiler`: the fleet whose workers train with servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from refluid.fluid import io
from refluid.fluid.compiler import CompiledProgram
from refluid.fluid.executor import Executor
from refluid.fluid.incubate.fleet.base.fleet_base import DistributedOptimizer, Fleet
from refluid.fluid.incubate.fleet.base.mode import Mode
from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (  # noqa: E501
    DistributedStrategy,
    StrategyFactory,
)
from refluid.fluid.incubate.fleet.parameter_server.tables import FleetTables
from refluid.fluid.transpiler.distribute_transpiler import (
    DistributeTranspiler,
    DistributeTranspilerConfig,
)
from refluid.ir.defaults import default_main_program, default_startup_program
from refluid.ir.program import Program

__all__ = ["DistributedTranspiler", "TranspilerOptimizer", "fleet"]


class DistributedTranspiler(FleetTables, Fleet):
    """Workers and servers. main_program, startup_program: what this process runs."""

    def __init__(self) -> None:
        super().__init__(Mode.TRANSPILER)
        self.startup_program: Program | None = None
        self.main_program: Program | None = None
        self._transpiler: DistributeTranspiler | None = None
        self._strategy: DistributedStrategy | None = None

    # -- programs -------------------------------------------------------------

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> TranspilerOptimizer:
        """The optimizer, training with servers.

        strategy: of StrategyFactory, synchronous unless given, or a DistributeTranspilerConfig.
        TypeError for others.
        """
        made = TranspilerOptimizer(optimizer, strategy)
        made._fleet = self
        self._optimizer = made
        return made

    def transpile(self, strategy: DistributedStrategy, main: Program, startup: Program) -> None:
        """Makes the programs of this process from those of one that trains alone."""
        config = strategy.get_program_config()
        made = DistributeTranspiler(config)
        made._set_server_config(strategy.get_server_runtime_config())
        endpoints = self.server_endpoints()
        worker = self.worker_index() if self.is_worker() else 0
        made.transpile(
            worker,
            program=main,
            pservers=",".join(endpoints),
            trainers=self.worker_num(),
            sync_mode=config.sync_mode,
            startup_program=startup,
        )
        self._transpiler, self._strategy = made, strategy
        if self.is_worker():
            self.main_program, self.startup_program = made.get_trainer_program(), startup
            _set_merging(made, strategy)
            return
        own = endpoints[self.server_index()]
        self.main_program, self.startup_program = made.get_pserver_programs(own)

    def _made(self, name: str) -> DistributeTranspiler:
        if self._transpiler is None:
            raise ValueError(f"call minimize of fleet.distributed_optimizer before {name}")
        return self._transpiler

    # -- servers --------------------------------------------------------------

    def init_server(self, model_dir: str | None = None) -> None:
        """Makes this server's tables, with what `save_persistables` left in `model_dir`, if any."""
        self._made("init_server")
        executor = Executor()
        executor.run(self.startup_program)
        if model_dir is not None:
            io.load_persistables(executor, model_dir, self.startup_program)

    def run_server(self) -> None:
        """Answers workers until all came and are gone."""
        self._made("run_server")
        Executor().run(self.main_program)

    # -- workers --------------------------------------------------------------

    def init_worker(self) -> None:
        """Waits for the servers, and tells them that this worker begins."""
        self._made("init_worker")._connection.open()

    def stop_worker(self) -> None:
        """Sends what is left, and tells the servers that this worker ends."""
        self._made("stop_worker")._connection.close()

    def barrier_worker(self) -> None:
        """Waits for all workers."""
        self._gathered(np.zeros(0))

    def all_reduce_worker(self, input: Any, output: Any) -> None:
        """Writes the sum of the workers' inputs to `output`, an array of that shape."""
        output[...] = sum(self._gathered(np.asarray(input)))

    def _gathered(self, value: Any) -> list[Any]:
        """The arrays of all workers, by number."""
        client = self._made("init_worker")._connection.link.client
        found = client.gather(torch.from_numpy(np.array(value)))
        return [one.numpy() for one in found]

    # -- files ----------------------------------------------------------------

    def save_inference_model(
        self,
        executor: Executor,
        dirname: str,
        feeded_var_names: Sequence[str],
        target_vars: Sequence[Any],
        main_program: Program | None = None,
        export_for_deployment: bool = True,
    ) -> Any:
        """As `fluid.io.save_inference_model`, of the program as the user made it: tables too."""
        split = self._saved(executor, main_program)
        from refluid.pserver.saved_models import predicting, whole_scope

        scope = whole_scope(self._connection(), parameters_only=True)
        program = predicting(split.side.main, split, scope)
        with io_scope(scope):
            return io.save_inference_model(
                dirname,
                feeded_var_names,
                [program.global_block().var(_name(one)) for one in target_vars],
                executor,
                program,
                None,
                None,
                export_for_deployment,
            )

    def save_persistables(
        self, executor: Executor, dirname: str, main_program: Program | None = None
    ) -> None:
        """Parameters, tables and what servers keep for them, as one process would have them.

        What only this worker has, such as states of metrics, is saved with them.
        """
        split = self._saved(executor, main_program)
        from refluid.pserver.saved_models import whole_scope

        with io_scope(whole_scope(self._connection(), parameters_only=False)):
            io.save_persistables(executor, dirname, split.side.main)

    def _connection(self) -> Any:
        return self._made("saving")._connection

    def _saved(self, executor: Any, program: Any) -> Any:
        if not isinstance(executor, Executor):
            raise TypeError(f"executor must be an Executor, not {type(executor).__name__}")
        if isinstance(program, CompiledProgram):
            raise TypeError("a fleet saves a Program, not what it was compiled to")
        return self._made("saving")._split


def _name(target: Any) -> str:
    return target if isinstance(target, str) else str(target.name)


def io_scope(scope: Any) -> Any:
    """Files are written of this scope within the block."""
    from refluid.core.scope import scope_guard

    return scope_guard(scope)


def _set_merging(made: DistributeTranspiler, strategy: DistributedStrategy) -> None:
    """Gradients of an asynchronous worker are merged as its strategy says."""
    from refluid.core import flags
    from refluid.pserver.sending import Merging

    told = strategy.get_trainer_runtime_config().runtime_configs
    given = {name.removeprefix("communicator_"): value for name, value in told.items()}
    asked = flags.was_set("communicator_is_sgd_optimizer")
    made._connection.merging = Merging(
        most=int(given["max_merge_var_num"]),
        waiting=int(given["send_queue_size"]),
        patience=int(given["send_wait_times"]),
        pulls_after=int(given["min_send_grad_num_before_recv"]),
        own_thread=bool(int(given["independent_recv_thread"])),
        sums=bool(given["is_sgd_optimizer"]) if asked else made._split.is_sgd,
    )


class TranspilerOptimizer(DistributedOptimizer):
    """Makes the loss's program that of this process: of a worker, or of a server."""

    def __init__(self, optimizer: Any, strategy: Any = None) -> None:
        super().__init__(optimizer, strategy)
        if isinstance(strategy, DistributeTranspilerConfig):
            strategy = _of_config(strategy)
        strategy = StrategyFactory.create_sync_strategy() if strategy is None else strategy
        if not isinstance(strategy, DistributedStrategy):
            raise TypeError(
                "In parameter server mode, strategy must be made by StrategyFactory, or a "
                f"DistributeTranspilerConfig, not {type(strategy).__name__}"
            )
        self._strategy = strategy
        self._fleet = fleet

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
        loss: Any,
        scopes: Any = None,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """As of the optimizer it is made of: (operators, (parameter, gradient) pairs).

        TypeError where several losses are given, as only pslib takes them.
        """
        if isinstance(loss, list):
            raise TypeError("DistributedTranspiler's optimizer takes one loss, not a list")
        done = self._optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        main = loss.block.program if loss is not None else default_main_program()
        startup = startup_program or default_startup_program()
        self._fleet.transpile(self._strategy, main, startup)
        return done


def _of_config(config: DistributeTranspilerConfig) -> DistributedStrategy:
    """The strategy that a transpiler's configuration asks for."""
    made: DistributedStrategy
    if config.geo_sgd_mode:
        made = StrategyFactory.create_geo_strategy(config.geo_sgd_need_push_nums)
    elif config.sync_mode:
        made = StrategyFactory.create_sync_strategy()
    elif config.half_async:
        made = StrategyFactory.create_half_async_strategy()
    else:
        made = StrategyFactory.create_async_strategy()
    made.set_program_config(config)
    return made


fleet = DistributedTranspiler()
