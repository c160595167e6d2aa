"""The programs of all replicas, as a strategy says how they exchange gradients."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection

from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.engine.fusing import draw
from refluid.engine.strategy import ReduceStrategy, Strategy
from refluid.ir.names import GRAD
from refluid.ir.program import Program
from refluid.passes.data_parallel import (
    Exchange,
    GradientScale,
    Parallel,
    balance,
    data_parallel,
    gradient_block,
    updates,
)

_log = logging.getLogger("refluid")
_MEGABYTE = 1 << 20
# A bucket that is exchanged while later gradients are still being computed, as DDP has it.
_BUCKET = 25 * _MEGABYTE


def replica_programs(
    program: Program,
    strategy: Strategy,
    loss: str | None,
    replicas: int,
    *,
    sharing: bool,
    first: bool,
    owning: bool = True,
) -> list[Program]:
    """One program for each replica.

    sharing: they share the parameters. first: for the first time, so the log says what was done.
    owning: in Reduce mode each makes the updates of its own parameters only.
    """
    scale = GradientScale(int(strategy.gradient_scale_strategy))
    if first and replicas == 1 and strategy.reduce_strategy == ReduceStrategy.Reduce:
        _log.warning(
            "If you set build_strategy.reduce with 'Reduce',the number of places should be "
            "greater than 1."
        )
    if replicas == 1 and scale != GradientScale.CUSTOMIZED:
        return [program]
    reduce = strategy.reduce_strategy == ReduceStrategy.Reduce and replicas > 1 and owning
    parallel = Parallel(
        replicas,
        loss,
        scale,
        *(bucket() if strategy.fuse_all_reduce_ops else (0, 0)),
        balance(gradient_block(program), replicas) if reduce else None,
        reduce and not sharing,
        strategy.fuse_broadcast_ops,
    )
    found = [data_parallel(program, parallel, rank) for rank in range(replicas)]
    if first:
        _say(strategy, found[0], broadcasts=parallel.broadcasts)
    return [one.program for one in found]


def require_loss_gradient(
    program: Program, strategy: Strategy, loss: str | None, fed: Collection[str]
) -> None:
    """EnforceNotMet where a replica's program reads `loss@GRAD`, which its user should feed."""
    name = f"{loss}{GRAD}"
    if int(strategy.gradient_scale_strategy) != GradientScale.CUSTOMIZED or name in fed:
        return
    if any(name in op.input_arg_names for op in program.global_block().ops):
        raise EnforceNotMet(
            f"gradient_scale_strategy is Customized, so {name!r} must be fed: in a dict a row for "
            "each place, in a list of dicts the place's own"
        )


def _say(strategy: Strategy, found: Exchange, *, broadcasts: bool) -> None:
    if strategy.debug_graphviz_path:
        draw(found.program, strategy, "multi_devices")
    if strategy.fuse_all_reduce_ops and found.exchanges < found.gradients:
        _log.warning(
            "Find all_reduce operators: %d. To make the speed faster, some all_reduce ops are "
            "fused during training, after fusion, the number of all_reduce ops is %d.",
            found.gradients,
            found.exchanges,
        )
    if not strategy.fuse_broadcast_ops and not broadcasts:
        _log.warning(
            "Currently, fuse_broadcast_ops only works under Reduce mode. Replicas on the CPU share "
            "their parameters then, and broadcast nothing."
        )


def bucket() -> tuple[int, int]:
    """Most bytes and, if not 0, most gradients of one exchange, as the flags say."""
    size = float(flags.value("fuse_parameter_memory_size"))
    count = int(flags.value("fuse_parameter_groups_size"))
    usual = _BUCKET if count == 1 else sys.maxsize
    return usual if size < 0 else int(size * _MEGABYTE), count if count > 1 else 0


def optimized(program: Program) -> set[str]:
    """Parameters, and what else the optimizer's updates write: shared in Reduce mode."""
    return {name for op in updates(program) for name in op.input_arg_names + op.output_arg_names}
