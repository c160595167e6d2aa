"""`PSLib`: the fleet of scripts written for pslib, asynchronous workers of refluid's servers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NoReturn

from refluid.fluid.executor import Executor
from refluid.fluid.functions.nn.embedding import growing_tables
from refluid.fluid.incubate.fleet.base.mode import Mode
from refluid.fluid.incubate.fleet.base.mpi_roles import MPISymetricRoleMaker
from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    DistributedTranspiler,
    StrategyFactory,
    TranspilerOptimizer,
)
from refluid.fluid.incubate.fleet.parameter_server.pslib.asked import complaints
from refluid.ir.program import Program

__all__ = ["DownpourOptimizer", "PSLib", "fleet", "fleet_embedding"]

_log = logging.getLogger("refluid")


class PSLib(DistributedTranspiler):
    """Workers and servers. What concerns whole tables all workers call, and the first one does."""

    def __init__(self) -> None:
        super().__init__()
        self._mode = Mode.PSLIB
        self._is_ready = False

    def init(self, role_maker: Any = None) -> None:
        super().init(role_maker)
        self._is_ready = False

    def _default_role_maker(self) -> MPISymetricRoleMaker:
        return MPISymetricRoleMaker()

    def distributed_optimizer(
        self,
        optimizer: Any,
        strategy: Any = {},  # noqa: B006
    ) -> DownpourOptimizer:
        """The optimizer, training with servers. strategy: a dict of pslib's options.

        What has no effect here is told of in the log; NotImplementedError for what refluid can't
        train by, ValueError for what pslib doesn't know.
        """
        made = DownpourOptimizer(optimizer, strategy)
        made._fleet = self
        self._optimizer = made
        return made

    # -- servers --------------------------------------------------------------

    def init_server(self, model_dir: str | None = None, **kwargs: Any) -> None:
        """Makes this server's tables; a worker has servers load `model_dir`, as `load_model`."""
        if self.is_worker():
            if model_dir is not None:
                self.load_model(model_dir, **kwargs)
            return
        super().init_server(model_dir)
        self._is_ready = True

    def run_server(self) -> None:
        if not self._is_ready:
            self.init_server()
        super().run_server()

    # -- tables ---------------------------------------------------------------

    def _together(self) -> None:
        self.barrier_worker()

    def save_persistables(
        self,
        executor: Executor,
        dirname: str,
        main_program: Program | None = None,
        **kwargs: Any,
    ) -> None:
        """As `save_model`."""
        self.save_model(dirname, **kwargs)

    def save_inference_model(
        self,
        executor: Executor,
        dirname: str,
        feeded_var_names: Sequence[str] | None = None,
        target_vars: Sequence[Any] | None = None,
        main_program: Program | None = None,
        export_for_deployment: bool = True,
    ) -> Any:
        """A model that predicts in one process; without names of inputs as `save_model`."""
        if feeded_var_names is None or target_vars is None:
            self.save_model(dirname, mode=2)
            return None
        self._together()
        found = None
        if self.is_first_worker():
            found = super().save_inference_model(
                executor, dirname, feeded_var_names, target_vars, main_program
            )
        self._together()
        return found

    def save_cache_model(
        self, executor: Executor, dirname: str, main_program: Program | None = None, **kwargs: Any
    ) -> int:
        """As `save_model(mode=2)`: a cache has all rows here; how many there are."""
        self.save_model(dirname, mode=2)
        found = self._connection().link.client.state()
        return sum(count for one in found for count in one["rows"].values())

    def shrink_sparse_table(self) -> None:
        """Ends a pass: rows are forgotten that weren't updated in REFLUID_TABLE_PASSES of them."""
        from refluid.pserver.passes import end_pass

        self._connection().link.flush()
        self._together()
        if self.is_first_worker():
            end_pass(self._connection().link.client)
        self._together()

    def confirm(self) -> None:
        """Nothing: updates are never taken back."""

    def set_pull_local_thread_num(self, thread_num: int) -> None:
        """Nothing: all servers are asked at once."""

    def revert(self) -> NoReturn:
        """NotImplementedError."""
        _refuse("updates are not taken back: load_model of a folder that save_model wrote")

    def shrink_dense_table(
        self, decay: Any, emb_dim: int = 11, scope: Any = None, table_id: int | None = None
    ) -> NoReturn:
        """NotImplementedError."""
        _refuse("statistics of data_norm are not decayed by servers")

    def save_model_with_whitelist(
        self,
        executor: Executor,
        dirname: str,
        whitelist_path: str,
        main_program: Program | None = None,
        **kwargs: Any,
    ) -> NoReturn:
        """NotImplementedError."""
        _refuse("there are no lists of rows: save_model saves all")

    def load_pslib_whitelist(self, table_id: int, model_path: str, **kwargs: Any) -> NoReturn:
        """NotImplementedError."""
        _refuse("there are no lists of rows: load_one_table loads all of a folder")


def _refuse(reason: str) -> NoReturn:
    raise NotImplementedError(f"refluid's servers are none of pslib: {reason}")


class DownpourOptimizer(TranspilerOptimizer):
    """Makes the loss's program that of this process. strategy: pslib's options."""

    def __init__(self, optimizer: Any, strategy: Any = None) -> None:
        asynchronous = StrategyFactory.create_async_strategy()
        config: Any = asynchronous.get_program_config()
        config._any_ids = True  # pslib's tables have no height
        super().__init__(optimizer, asynchronous)
        if strategy is not None and not isinstance(strategy, dict):
            raise TypeError(f"pslib takes a dict of options, not {type(strategy).__name__}")
        for line in complaints(strategy or {}):
            _log.warning(line)
        self._window = 1
        self.type = "downpour"

    def minimize(
        self,
        losses: Any,
        scopes: Any = None,
        startup_programs: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """As of the optimizer it is made of. losses: one, or a list of one.

        NotImplementedError where there are several: each program would be a job of its own.
        """
        loss, startup = _only(losses, "losses"), _only(startup_programs, "startup_programs")
        return super().minimize(loss, None, startup, parameter_list, no_grad_set)


def _only(given: Any, name: str) -> Any:
    if not isinstance(given, list | tuple):
        return given
    if len(given) != 1:
        raise NotImplementedError(
            f"{name} has {len(given)}: servers have the tables of one program. Build one program "
            "with the sum of the losses"
        )
    return given[0]


class fleet_embedding:
    """Within the block embeddings may have -1 rows, as many as come; else they are as elsewhere.

    click_name: whose clicks pslib counts for rows; refluid's servers count updates.
    """

    def __init__(self, click_name: str, scale_sparse_grad: bool = True) -> None:
        self.click_name, self.scale_sparse_grad = click_name, scale_sparse_grad
        self._within = ExitStack()

    def __enter__(self) -> None:
        """Begins the block."""
        self._within.enter_context(growing_tables())

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        """Ends it."""
        self._within.close()


fleet = PSLib()
