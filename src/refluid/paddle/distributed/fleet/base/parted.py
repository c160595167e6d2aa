"""Programs with layers that are split among workers: which groups train them, how they begin."""

from __future__ import annotations

from refluid.analysis.split_state import split_parameters, split_state
from refluid.core.errors import EnforceNotMet
from refluid.core.scope import Scope
from refluid.ir.program import Program
from refluid.ops.registry import defined
from refluid.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from refluid.paddle.distributed.topology import HybridCommunicateGroup, hybrid_group

# Updates for which a worker would need all of a parameter, or of its gradient.
_WHOLE = {"lamb": "Lamb", "lars_momentum": "LarsMomentum", "dgc_momentum": "DGCMomentum"}


def grid_of(strategy: DistributedStrategy) -> HybridCommunicateGroup | None:
    """The groups of workers that a strategy of programs asks for; None where all are one group.

    All workers must call this.
    """
    if strategy.hybrid_configs["pp_degree"] > 1 and not strategy.pipeline:
        raise NotImplementedError(
            "hybrid_configs['pp_degree'] alone cuts models of dygraph; programs have "
            "strategy.pipeline, and their layers are on the devices of stages"
        )
    asked = [strategy.hybrid_configs["mp_degree"]]
    if strategy.tensor_parallel:
        asked.append(strategy.tensor_parallel_configs["tensor_parallel_degree"])
    if strategy.sharding:
        asked.append(strategy.sharding_configs["mp_degree"])
    degrees = sorted({one for one in asked if one != 1})
    if len(degrees) > 1:
        raise ValueError(f"a strategy splits layers in as many parts everywhere, not in {degrees}")
    return hybrid_group(mp=degrees[0]) if degrees else None


def split(
    main: Program, startup: Program, strategy: DistributedStrategy, grid: HybridCommunicateGroup
) -> None:
    """A program with updates is one of this worker's parts. Errors as of `require_whole`."""
    require_whole(main)
    seed = strategy.tensor_parallel_configs["tensor_init_seed"]
    begin_parts(startup, main, grid.get_model_parallel_rank(), seed)


def require_whole(program: Program) -> None:
    """EnforceNotMet for an update that split parameters can't have."""
    names = {one.name for one in split_parameters(program)}
    for block in program.blocks:
        for op in block.ops:
            if op.type in _WHOLE and names & set(op.input_arg_names):
                (name,) = op.input("Param")
                raise EnforceNotMet(
                    f"{_WHOLE[op.type]} needs all of {name}, which is split among workers: update "
                    "split parameters by SGD, Momentum or Adam"
                )


def begin_parts(startup: Program, main: Program, rank: int, seed: int) -> None:
    """Split parameters are drawn by each worker from another seed; -1: as the program says."""
    names = [one.name for one in split_parameters(main)]
    for op in startup.global_block().ops:
        drawn = [name for name in op.output_arg_names if name in names]
        if drawn and seed >= 0 and "seed" in defined(op.type).attributes:
            op._set_attr("seed", 1 + seed + rank + 1009 * names.index(drawn[0]))


def begin_whole(grid: HybridCommunicateGroup, program: Program, scope: Scope) -> None:
    """What isn't split begins as that of the first member of each model group."""
    group = grid.get_model_parallel_group()
    if group.comm is not None and group.nranks > 1:
        from refluid.engine.agreement import begin_alike  # most programs are whole

        begin_alike(group.comm, program, scope, split_state(program))
