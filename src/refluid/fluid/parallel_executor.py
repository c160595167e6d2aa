"""`ParallelExecutor`: the older way to run a program on several places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core.places import CPUPlace, CUDAPlace
from refluid.core.scope import Scope, global_scope
from refluid.fluid.compiler import BuildStrategy, CompiledProgram, ExecutionStrategy
from refluid.fluid.executor import Executor
from refluid.ir.defaults import default_main_program
from refluid.ir.program import Program
from refluid.runtime.allocator import release

__all__ = ["BuildStrategy", "ExecutionStrategy", "ParallelExecutor"]


class ParallelExecutor:
    """Runs one program on all GPUs (`use_cuda`) or on CPU_NUM CPU places.

    loss_name: the loss, for training. main_program: the default main program where None.
    share_vars_from: another ParallelExecutor that has run, whose variables this one uses.
    scope: the global scope where None. num_trainers, trainer_id: how many processes train
    together, and which this is; where they are, build_strategy.trainers_endpoints says, else the
    environment.
    """

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: Program | None = None,
        share_vars_from: ParallelExecutor | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        build_strategy: BuildStrategy | None = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Scope | None = None,
    ) -> None:
        self._place = CUDAPlace(0) if use_cuda else CPUPlace()
        self._scope = global_scope() if scope is None else scope
        program = default_main_program() if main_program is None else main_program
        if share_vars_from is not None and not isinstance(share_vars_from, ParallelExecutor):
            raise TypeError("share_vars_from must be ParallelExecutor")
        shared: CompiledProgram | None = share_vars_from._compiled if share_vars_from else None
        if num_trainers > 1:
            build_strategy = build_strategy or BuildStrategy()
            build_strategy.num_trainers = num_trainers
            build_strategy.trainer_id = trainer_id
        self._compiled: CompiledProgram = CompiledProgram(program).with_data_parallel(
            loss_name=loss_name,
            build_strategy=build_strategy,
            exec_strategy=exec_strategy,
            share_vars_from=shared,
        )
        self._executor = Executor(self._place)
        self._compiled._compile(self._scope, self._place)

    def run(
        self,
        fetch_list: Sequence[Any],
        feed: Any = None,
        feed_dict: Any = None,
        return_numpy: bool = True,
    ) -> list[Any]:
        """One step on every place; each fetch holds the values of all places, joined.

        feed: a dict whose arrays are split among the places, or a list with a dict per place.
        feed_dict: an older name of feed. Errors as of `Executor.run`.
        """
        return self._executor.run(
            self._compiled,
            feed=feed_dict if feed is None else feed,
            fetch_list=fetch_list,
            scope=self._scope,
            return_numpy=return_numpy,
        )

    @property
    def device_count(self) -> int:
        """The number of places."""
        return len(self._compiled._compile(self._scope, self._place).places)

    def drop_local_exe_scopes(self) -> None:
        """Gives memory that runs freed back to the system or the GPU."""
        for place in self._compiled._compile(self._scope, self._place).places:
            release(place.device)
