"""`Collective`: the fleet whose workers exchange gradients."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from refluid.collective.job import joined_as
from refluid.core.scope import global_scope
from refluid.fluid import io
from refluid.fluid.executor import Executor
from refluid.fluid.incubate.fleet.base.fleet_base import Fleet
from refluid.fluid.incubate.fleet.base.mode import Mode
from refluid.fluid.incubate.fleet.base.role_maker import RoleMakerBase
from refluid.fluid.incubate.fleet.collective.checkpoints import Checkpoints
from refluid.fluid.incubate.fleet.collective.optimizers import CollectiveOptimizer
from refluid.ir.program import Program

__all__ = ["Collective", "fleet"]


class Collective(Checkpoints, Fleet):
    """Workers without servers. main_program, startup_program: as `minimize` left them."""

    def __init__(self) -> None:
        super().__init__(Mode.COLLECTIVE)
        self._local_ip = 0
        self.startup_program: Program | None = None
        self.main_program: Any = None
        self._origin_program: Program | None = None
        self._transpiled_program: Program | None = None
        self._checkpoint_prefix = "__paddle_fleet_checkpoint__"
        self._param_file_name = "_paddle_fleet_param__"

    def init(self, role_maker: RoleMakerBase | None = None) -> None:
        """Finds out what this process is, and joins the other workers where there are any."""
        super().init(role_maker)
        if self.worker_num() > 1:
            joined_as(self.worker_index(), self.worker_num(), self.worker_endpoints())

    def init_worker(self) -> None:
        raise NotImplementedError(_NO_SERVERS.format("init_worker"))

    def run_worker(self, main_programs: Any = None, scopes: Any = None) -> None:
        """Belongs to servers."""
        raise NotImplementedError(_NO_SERVERS.format("run_worker"))

    def init_server(self, model_dir: str | None = None) -> None:
        raise NotImplementedError(_NO_SERVERS.format("init_server"))

    def run_server(self) -> None:
        raise NotImplementedError(_NO_SERVERS.format("run_server"))

    def stop_worker(self) -> None:
        raise NotImplementedError(_NO_SERVERS.format("stop_worker"))

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> CollectiveOptimizer:
        """The optimizer, training with the other workers. strategy: a DistributedStrategy."""
        made = CollectiveOptimizer(optimizer, strategy)
        self._optimizer = made
        return made

    def save_inference_model(
        self,
        executor: Executor,
        dirname: str,
        feeded_var_names: Sequence[str] | None = None,
        target_vars: Sequence[Any] | None = None,
        main_program: Program | None = None,
        export_for_deployment: bool = True,
    ) -> Any:
        """As `fluid.io.save_inference_model`, of the program as the user made it."""
        program = self._plain(main_program)
        return io.save_inference_model(
            dirname,
            feeded_var_names,
            target_vars or [],
            executor,
            program,
            None,
            None,
            export_for_deployment,
        )

    def save_persistables(
        self,
        executor: Executor,
        dirname: str,
        main_program: Program | None = None,
        filename: str | None = None,
    ) -> Any:
        """As `fluid.io.save_persistables`, of the program as the user made it.

        In Reduce mode, in which workers own shares of the optimizer's state, all must call this.
        """
        program = self._plain(main_program)
        run = program._run_as
        with nullcontext() if run is None else run._whole(global_scope()):
            io.save_persistables(executor, dirname, program, filename=filename)

    def _plain(self, program: Program | None) -> Program:
        """The program to save. TypeError where it is a compiled one."""
        found = self._origin_program if program is None else program
        if not isinstance(found, Program):
            raise TypeError(
                "a fleet saves a Program: give the one that was minimized, not what it was "
                f"compiled to ({type(found).__name__})"
            )
        return found


_NO_SERVERS = (
    "You should not call '{}' for collective mode: its workers have no servers; "
    "fluid.incubate.fleet.parameter_server has"
)

fleet = Collective()
