"""`strategy.pipeline`: each worker trains one stage of the program, of layers on one device."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from refluid.collective.joining import trainers_of
from refluid.comm import Communicator
from refluid.comm.world import world
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.engine.exchanging import by_strategy
from refluid.engine.pipelined.micro_batches import SCHEDULES, MicroBatches
from refluid.engine.pipelined.run import PipelineMembers, PipelineRun
from refluid.engine.pipelined.whole import gathered
from refluid.engine.strategy import ReduceStrategy, Strategy
from refluid.fluid.clipping.gradients import dealt_parameters
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.text import print_program
from refluid.ops.effects import Effect
from refluid.ops.registry import facts_of
from refluid.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from refluid.paddle.distributed.fleet.base.parted import begin_whole, split
from refluid.paddle.distributed.fleet.base.running import WorkerProgram, Workers, compiled
from refluid.paddle.distributed.topology import HybridCommunicateGroup
from refluid.passes.pipeline_placing import Placing, owner_of, stages_in
from refluid.passes.pipeline_stages import Stage, cut

_log = logging.getLogger("refluid")


def minimize_stage(
    inner: Any,
    strategy: DistributedStrategy,
    workers: Workers,
    grid: HybridCommunicateGroup | None,
    loss: Any,
    startup: Program,
    *given: Any,
) -> Any:
    """As `minimize` of `inner`, but appends the updates of this worker's stage alone.

    Running the loss's program then runs that stage, and the startup program makes what it has.
    grid: where layers are split, the groups of workers. given: parameter_list, no_grad_set.
    ValueError where the workers aren't a multiple of the stages, EnforceNotMet for layers on no
    device or in no order.
    """
    main = loss.block.program
    if grid is not None:
        workers = workers.at(_with_same_part(grid))
    stages = _stages_of(main, strategy, workers)
    if strategy.build_strategy.reduce_strategy == ReduceStrategy.Reduce:
        _log.warning(
            "reduce_strategy Reduce has no effect with pipeline: stages own what they train."
        )
    pairs = inner.backward(loss, startup, *given)
    placing, told = Placing(main), print_program(main, brief=True).splitlines()
    owners = [owner_of(placing, param.name) for param, _ in pairs]
    if strategy.amp and len(set(owners)) < stages:
        without = min(set(range(stages)) - set(owners))
        raise ValueError(
            f"stage {without} has no parameters; in mixed precision each stage needs some, to "
            "change the scale of the loss with the others"
        )
    own = [
        pair for pair, stage in zip(pairs, owners, strict=True) if stage == workers.rank % stages
    ]
    ops: list[Operator] = []
    if own:
        with dealt_parameters():
            ops = inner.apply_optimize(loss, startup, own)
    if grid is not None:
        split(main, startup, strategy, grid)
    run = PipelinedProgram(main, strategy, workers, loss.name, told, grid)
    main._run_as, startup._run_as = run, _own_startup(startup, run.stage())
    return ops, pairs


def _stages_of(main: Program, strategy: DistributedStrategy, workers: Workers) -> int:
    """How many there are. ValueError where workers can't be parted in so many."""
    stages, asked = stages_in(main), strategy.hybrid_configs["pp_degree"]
    if asked not in (1, stages):
        raise ValueError(
            f"hybrid_configs['pp_degree'] is {asked}, and the program's layers stand on {stages} "
            "devices, a stage each"
        )
    if workers.count % stages:
        raise ValueError(
            f"the program has {stages} stages, one for each device of its layers; the number of "
            f"workers, which is {workers.count}, must be a multiple of that"
        )
    return stages


def _with_same_part(grid: HybridCommunicateGroup) -> range:
    """The workers that have the same part of split layers as this one, of any stage."""
    parts = grid.get_model_parallel_world_size()
    return range(grid.get_model_parallel_rank(), grid.nranks, parts)


class PipelinedProgram(WorkerProgram):
    """The stage of worker `rank`: `rank % stages` of pipeline `rank // stages`.

    Where layers are split, ranks are those among the workers with the same part.
    """

    def __init__(
        self,
        program: Program,
        strategy: DistributedStrategy,
        workers: Workers,
        loss: str,
        told: list[str],
        grid: HybridCommunicateGroup | None = None,
    ) -> None:
        super().__init__(program, {}, grid)
        compiled(self, strategy, workers, loss)
        self._stages = stages_in(program)
        self._number, self._told = workers.rank % self._stages, told
        config = strategy.pipeline_configs
        if config["schedule_mode"] not in SCHEDULES:
            known = " or ".join(SCHEDULES)
            raise ValueError(f"schedule_mode is {known}, not {config['schedule_mode']!r}")
        sized = "micro_batch_size" in strategy._set.get("pipeline_configs", {})
        size = config["micro_batch_size"] if sized else 0
        self._micro = MicroBatches(config["accumulate_steps"], size, config["schedule_mode"])
        scale = strategy.gradient_scale_configs["scale_strategy"]
        if scale == "customized":
            raise ValueError("a pipeline begins the gradients itself: scale_strategy avg or sum")
        mean = scale == "avg"
        self._divided = self._micro.steps * (workers.count // self._stages if mean else 1)
        self._made: dict[int, PipelineRun] = {}
        self._members: PipelineMembers | None = None
        self._changes = -1

    def stage(self) -> Stage:
        """What this worker runs of the program as it is now."""
        self._changes = self._program.change_count
        return cut(self._program, self._number, Placing(self._program), self._divided)

    def _compile(self, scope: Scope, place: Place) -> Any:
        found = self._made.get(id(scope))
        if found is None:
            self._places = [place]
            strategy, stage = self._wanted(), self.stage()
            if self._members is None:
                self._members = self._meet(self._trainers(strategy), stage, place)
                if self._grid is not None:
                    begin_whole(self._grid, self._program, scope)
            found = PipelineRun(
                stage, self._micro, strategy, place, self._members, scope, self._told
            )
            self._made[id(scope)] = found
        elif self._changes != self._program.change_count:
            found.stage = self.stage()
        return found

    def _trainers(self, strategy: Strategy) -> Communicator:
        if self._grid is None:
            return trainers_of(strategy)
        same = world().split(self._grid.get_model_parallel_rank())
        assert same is not None
        return same

    def _meet(self, everyone: Communicator, stage: Stage, place: Place) -> PipelineMembers:
        pipeline, number = divmod(everyone.rank, self._stages)
        pipe, alike = everyone.split(pipeline), everyone.split(number)
        assert pipe is not None and alike is not None
        updating = pipe.split(0 if _exchanges(stage.update) else None)
        alike = by_strategy(alike, self._wanted(), 0, place.device)
        return PipelineMembers(everyone, pipe, alike, updating)

    @contextmanager
    def _whole(self, scope: Scope) -> Iterator[None]:
        """Within the block the scope holds the parameters of all stages; all must enter it."""
        made = self._made.get(id(scope))
        if made is None:
            yield
            return
        with gathered(self._program, Placing(self._program), made.members.pipe, scope):
            yield


def _exchanges(program: Program) -> bool:
    ops = (op for block in program.blocks_run() for op in block.ops)
    return any(Effect.COMM in facts_of(op.type).effects for op in ops)


def _own_startup(startup: Program, stage: Stage) -> Program:
    """The startup program without what other stages have."""
    copy = startup.clone()
    Editor(copy.global_block()).keep(lambda op: not stage.of_others.issuperset(op.output_arg_names))
    return copy
