"""`Fleet` of Paddle 2: the processes of a job as one of them sees them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from refluid.collective.job import joined_as
from refluid.core.scope import global_scope
from refluid.fluid import io
from refluid.fluid.executor import Executor
from refluid.ir.defaults import default_main_program
from refluid.ir.program import Program
from refluid.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from refluid.paddle.distributed.fleet.base.gridded import FleetGrid
from refluid.paddle.distributed.fleet.base.optimizing import FleetOptimizer
from refluid.paddle.distributed.fleet.base.role_maker import PaddleCloudRoleMaker, RoleMakerBase
from refluid.paddle.distributed.fleet.base.running import Workers
from refluid.paddle.distributed.fleet.base.tables import FleetTables
from refluid.paddle.distributed.fleet.base.util_factory import UtilBase

__all__ = ["Fleet"]

_ALONE = "127.0.0.1:6170"


class Fleet(FleetTables, FleetGrid):
    """The processes of a job. `init` must be called first.

    fleet.init(is_collective=True, strategy=strategy)
    optimizer = fleet.distributed_optimizer(optimizer)
    optimizer.minimize(loss)

    Without is_collective there are servers, where the role maker names some; else this process is
    alone, and what is for servers does nothing.
    """

    _init = "fleet.init()"

    def __init__(self) -> None:
        self.util = UtilBase()
        self._role_maker: Any = None
        self._is_collective = False
        self._servers: Any = None
        self._optimizer: FleetOptimizer | None = None

    def init(
        self,
        role_maker: RoleMakerBase | None = None,
        is_collective: bool = False,
        strategy: DistributedStrategy | None = None,
        log_level: Any = "INFO",
    ) -> None:
        """Finds out what this process is, and joins the other workers where there are any.

        role_maker: says what it is; the environment where None. is_collective: there are workers
        only. strategy: how they train. ValueError or TypeError for what is none of these.
        """
        if role_maker is None:
            if not isinstance(is_collective, bool):
                raise ValueError(
                    "`is_collective` should be instance of `bool`, "
                    f"but got {type(is_collective).__name__}"
                )
            role_maker = PaddleCloudRoleMaker(is_collective=is_collective)
        elif not isinstance(role_maker, RoleMakerBase):
            raise ValueError(
                "`role_maker` should be subclass of `RoleMakerBase`, "
                f"but got {type(role_maker).__name__}"
            )
        self._is_collective = bool(getattr(role_maker, "_is_collective", is_collective))
        role_maker.generate_role()
        self._role_maker, self._user_strategy = role_maker, _checked(strategy)
        self._servers = None
        self.util._set_role_maker(role_maker)
        self.util._set_strategy(self._user_strategy)
        if not self._is_collective and role_maker.get_pserver_endpoints():
            from refluid.paddle.distributed.fleet.base.served import RoleThroughServers, ServedFleet

            self._servers = ServedFleet()
            self._servers.init(role_maker)
            self.util._set_role_maker(RoleThroughServers(role_maker, self._servers))
        if self._is_collective and self.worker_num() > 1:
            joined_as(self.worker_index(), self.worker_num(), self.worker_endpoints())
        self._settle()

    # -- who the processes are ------------------------------------------------

    def node_num(self) -> int:
        """On how many hosts they are."""
        return len({one.rpartition(":")[0] for one in self.worker_endpoints()})

    def local_rank(self) -> int:
        """Number of this worker among those on its host, from 0."""
        hosts = [one.rpartition(":")[0] for one in self.worker_endpoints()]
        own = self.worker_index()
        return hosts[:own].count(hosts[own]) if hosts else 0

    # -- servers --------------------------------------------------------------

    def init_worker(self, scopes: Any = None) -> None:
        """Waits for the servers, where there are any, and tells them that this worker begins."""
        self._role()
        if self._servers is not None:
            self._servers.init_worker()

    def init_server(self, dirname: str | None = None, *args: Any, **kwargs: Any) -> None:
        """Makes this server's tables, with what `save_persistables` left in `dirname`, if any."""
        self._role()
        if self._servers is not None:
            self._servers.init_server(dirname)

    def run_server(self) -> None:
        """Answers workers until all came and are gone."""
        self._role()
        if self._servers is not None:
            self._servers.run_server()

    def stop_worker(self) -> None:
        """Sends what is left, and tells the servers that this worker ends."""
        self._role()
        if self._servers is not None:
            self._servers.stop_worker()

    def barrier_worker(self) -> None:
        """Waits for all workers."""
        if self._servers is None:
            super().barrier_worker()
        else:
            self._servers.barrier_worker()

    # -- training ---------------------------------------------------------------

    def distributed_optimizer(
        self, optimizer: Any, strategy: DistributedStrategy | None = None
    ) -> FleetOptimizer:
        """The optimizer, training with the other workers.

        strategy: takes the place of that of `init`. TypeError for what is no optimizer.
        """
        self._role()
        chosen = self._user_strategy if strategy is None else _checked(strategy)
        self.util._set_strategy(chosen)
        kind = FleetOptimizer
        if self._servers is not None:
            from refluid.paddle.distributed.fleet.base.served import ServedOptimizer

            kind = ServedOptimizer
        self._optimizer = kind(self, optimizer, chosen or DistributedStrategy())
        return self._optimizer

    def minimize(
        self,
        loss: Any,
        startup_program: Program | None = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """As of the optimizer that `distributed_optimizer` made last."""
        return self._made().minimize(loss, startup_program, parameter_list, no_grad_set)

    def _made(self) -> FleetOptimizer:
        if self._optimizer is None:
            raise ValueError("fleet.distributed_optimizer(optimizer) must be called before this")
        return self._optimizer

    def step(self) -> None:
        """Of dygraph: averages gradients over workers, then updates."""
        self._made().step()

    def clear_grad(self) -> None:
        """Of dygraph: clears the gradients of the optimizer's parameters."""
        self._made().clear_grad()

    def get_lr(self) -> float:
        """The optimizer's learning rate."""
        return float(self._made().get_lr())

    def set_lr(self, value: float) -> None:
        """Sets the optimizer's learning rate."""
        self._made().set_lr(value)

    def state_dict(self) -> dict[str, Any]:
        """What the optimizer keeps."""
        found: dict[str, Any] = self._made().state_dict()
        return found

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Sets what the optimizer keeps."""
        self._made().set_state_dict(state_dict)

    def _workers(self) -> Workers:
        return Workers(self.worker_index(), self.worker_endpoints() or [_ALONE])

    def all_reduce(self, input: Any, mode: str = "sum") -> Any:
        """The `sum`, `mean`, `max` or `min` over all workers, an array of the input's shape."""
        if mode != "mean":
            return self.util.all_reduce(input, mode)
        return self.util.all_reduce(input, "sum") / self.worker_num()

    # -- files ------------------------------------------------------------------

    def save(
        self, dirname: str, feed: Sequence[Any] = (), fetch: Sequence[Any] = (), **configs: Any
    ) -> None:
        """A model that predicts, of feeds (names or variables) and fetches; else all that trains.

        configs: executor, program, and mode of `save_persistables`.
        """
        executor = configs.get("executor") or Executor()
        program = configs.get("program")
        if feed or fetch:
            names = [str(getattr(one, "name", one)) for one in feed]
            self.save_inference_model(executor, dirname, names, list(fetch), program)
        else:
            self.save_persistables(executor, dirname, program, configs.get("mode", 0))

    def save_inference_model(
        self,
        executor: Executor,
        dirname: str,
        feeded_var_names: Sequence[str],
        target_vars: Sequence[Any],
        main_program: Program | None = None,
        export_for_deployment: bool = True,
        mode: int = 0,
    ) -> Any:
        """As `fluid.io.save_inference_model`, of the program as the user made it.

        Where parameters have owners all workers must call this.
        """
        if self._servers is not None:
            return self._servers.save_inference_model(
                executor, dirname, feeded_var_names, target_vars, main_program
            )
        program = main_program or default_main_program()
        with _whole(program):
            return io.save_inference_model(
                dirname,
                list(feeded_var_names),
                list(target_vars),
                executor,
                program,
                None,
                None,
                export_for_deployment,
            )

    def save_persistables(
        self, executor: Executor, dirname: str, main_program: Program | None = None, mode: int = 0
    ) -> None:
        """As `fluid.io.save_persistables`, of the program as the user made it.

        With sharding all workers must call this, each with a folder that it may write; of servers
        one worker has all that they hold.
        """
        if self._servers is not None:
            self._servers.save_persistables(executor, dirname, main_program)
            return
        program = main_program or default_main_program()
        with _whole(program):
            io.save_persistables(executor, dirname, program)


def _whole(program: Program) -> Any:
    """Within the block the global scope holds what other workers own too."""
    run = program._run_as
    return nullcontext() if run is None else run._whole(global_scope())


def _checked(strategy: Any) -> DistributedStrategy | None:
    if strategy is not None and not isinstance(strategy, DistributedStrategy):
        raise TypeError(
            "strategy must be a DistributedStrategy of paddle.distributed.fleet, "
            f"not {type(strategy).__name__}"
        )
    return strategy


fleet = Fleet()
