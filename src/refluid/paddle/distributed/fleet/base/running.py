"""What the workers of a fleet run in place of the program that was minimized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from refluid.comm import ALONE, Communicator
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.engine.replicated import Replicated
from refluid.engine.strategy import GradientScaleStrategy, Strategy
from refluid.fluid.compiler import BuildStrategy, CompiledProgram
from refluid.fluid.transpiler import collective as transpilers
from refluid.ir.program import Program
from refluid.paddle.distributed.fleet.base.adaptive import AdaptiveLocalSGD
from refluid.paddle.distributed.fleet.base.distributed_strategy import (
    DistributedStrategy,
    changed,
)
from refluid.paddle.distributed.fleet.base.parted import begin_whole
from refluid.paddle.distributed.topology import HybridCommunicateGroup

_SCALES = {
    "avg": GradientScaleStrategy.CoeffNumDevice,
    "sum": GradientScaleStrategy.One,
    "customized": GradientScaleStrategy.Customized,
}


class WorkerProgram(CompiledProgram):
    """A program that this worker runs where its executor is, whatever other devices there are.

    options: of the engine's Strategy, besides those that Fluid's strategies have. grid: the groups
    of workers where layers are split.
    """

    def __init__(
        self,
        program: Program,
        options: dict[str, Any],
        grid: HybridCommunicateGroup | None = None,
    ) -> None:
        super().__init__(program)
        self._fleet_options, self._grid = options, grid

    def _compile(self, scope: Scope, place: Place) -> Replicated:
        self._places = [place]
        if self._replicated is None and self._grid is not None:
            begin_whole(self._grid, self._program, scope)
        return super()._compile(scope, place)

    def _trainers(self, strategy: Strategy) -> Communicator:
        if self._grid is None:
            return super()._trainers(strategy)
        return self._grid.get_data_parallel_group().comm or ALONE

    def _wanted(self) -> Strategy:
        return replace(super()._wanted(), **self._fleet_options)


@dataclass(frozen=True)
class Workers:
    """Worker `rank` of those at `endpoints`."""

    rank: int
    endpoints: Sequence[str]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.endpoints)

    def at(self, ranks: Sequence[int]) -> Workers:
        """This worker among some of them."""
        return Workers(ranks.index(self.rank), [self.endpoints[one] for one in ranks])


def together(
    strategy: DistributedStrategy,
    workers: Workers,
    loss: str,
    main: Program,
    startup: Program,
    grid: HybridCommunicateGroup | None = None,
) -> Program | WorkerProgram:
    """What to run: a program with exchanges of its own, or one that the engine adds them to.

    grid: where layers are split, the groups of workers, who train as those with the same parts.
    """
    if grid is not None:
        workers = workers.at(grid.get_data_parallel_group().ranks)
    if strategy.localsgd or strategy.adaptive_localsgd:
        if workers.count > 1:
            _transpile(strategy, workers, loss, main, startup)
        return main
    return compiled(WorkerProgram(main, {}, grid), strategy, workers, loss)


def compiled(
    made: WorkerProgram, strategy: DistributedStrategy, workers: Workers, loss: str
) -> WorkerProgram:
    """The same, to be run as the strategy says."""
    made._fleet_options = _options(strategy, workers.count)
    made.with_data_parallel(loss, _build(strategy, workers), strategy.execution_strategy)
    return made


def _transpile(
    strategy: DistributedStrategy, workers: Workers, loss: str, main: Program, startup: Program
) -> None:
    rings, made = strategy.nccl_comm_num, transpilers.LocalSGD(strategy.nccl_comm_num)
    config = strategy.localsgd_configs
    made.steps, made.warm_steps = config["k_steps"], config["begin_step"]
    if strategy.adaptive_localsgd:
        config = strategy.adaptive_localsgd_configs
        made = AdaptiveLocalSGD(rings, config["init_k_steps"], config["begin_step"], loss)
    made.transpile(startup, main, workers.rank, list(workers.endpoints), None, False)


def _build(strategy: DistributedStrategy, workers: Workers) -> BuildStrategy:
    """The user's build strategy with what the fleet says of exchanges."""
    build = BuildStrategy()
    for name, value in changed(strategy.build_strategy).items():
        setattr(build, name, value)
    kind = strategy.gradient_scale_configs["scale_strategy"]
    if kind not in _SCALES:
        raise ValueError(f"scale_strategy is one of {', '.join(_SCALES)}, not {kind!r}")
    build.gradient_scale_strategy = _SCALES[kind]
    build.fuse_all_reduce_ops = strategy.fuse_all_reduce_ops
    build.nccl_comm_num = strategy.nccl_comm_num
    build.use_hierarchical_allreduce = strategy.use_hierarchical_allreduce
    build.hierarchical_allreduce_inter_nranks = strategy.hierarchical_allreduce_inter_nranks
    build.sync_batch_norm = strategy.sync_batch_norm or build.sync_batch_norm
    build.num_trainers, build.trainer_id = workers.count, workers.rank
    build.trainers_endpoints = list(workers.endpoints) if workers.count > 1 else []
    return build


def _options(strategy: DistributedStrategy, workers: int) -> dict[str, Any]:
    """Options of the engine that Fluid's BuildStrategy doesn't have."""
    found: dict[str, Any] = {
        "bucket_megabytes": float(strategy.fuse_grad_size_in_MB),
        "bucket_gradients": int(strategy._fuse_grad_size_in_TFLOPS),
        "exchange_type": "float16" if strategy.fp16_allreduce else "",
    }
    if strategy.sharding and workers > 1:
        found |= _shares(strategy, workers)
    return found


def _shares(strategy: DistributedStrategy, workers: int) -> dict[str, Any]:
    """What sharding_configs ask of the engine. ValueError where there are other workers."""
    config = strategy.sharding_configs
    degree, groups = config["sharding_degree"], config["dp_degree"]
    if "sharding_degree" not in strategy._set.get("sharding_configs", {}):
        degree = workers // groups
    if config["hybrid_dp"]:
        groups = workers // degree
    if degree == 1:
        return {}
    if degree * groups != workers:
        raise ValueError(
            f"sharding_degree {degree} times dp_degree {groups} must be the number of workers, "
            f"which is {workers}"
        )
    if not 1 <= config["stage"] <= 3:
        raise ValueError(f"the stage of sharding is 1, 2 or 3, not {config['stage']}")
    by_size = config["sharding_segment_strategy"] == "segment_broadcast_MB"
    return {
        "sharding_stage": config["stage"],
        "sharding_degree": degree,
        "segment_megabytes": config["segment_broadcast_MB"] if by_size else 0.0,
        "segment_anchors": () if by_size else tuple(config["segment_anchors"]),
    }
