"""What replicas share, and what their user must feed."""

from __future__ import annotations

from collections.abc import Collection

import torch

from refluid.comm import Communicator
from refluid.core.errors import EnforceNotMet
from refluid.engine.strategy import Strategy
from refluid.ir.names import GRAD
from refluid.ir.program import Program
from refluid.passes.data_parallel import GradientScaleStrategy, updates


def require_loss_gradient(
    program: Program, strategy: Strategy, loss: str | None, fed: Collection[str]
) -> None:
    """EnforceNotMet where a replica's program reads `loss@GRAD`, which its user should feed."""
    name = f"{loss}{GRAD}"
    if int(strategy.gradient_scale_strategy) != GradientScaleStrategy.Customized or name in fed:
        return
    if any(name in op.input_arg_names for op in program.global_block().ops):
        raise EnforceNotMet(
            f"gradient_scale_strategy is Customized, so {name!r} must be fed: in a dict a row for "
            "each place, in a list of dicts the place's own"
        )


def by_strategy(
    trainers: Communicator,
    strategy: Strategy,
    stage: int = 0,
    device: torch.device = torch.device("cpu"),  # noqa: B008
) -> Communicator:
    """The trainers, reducing gradients as the strategy says; all must call this.

    stage: of sharding. device: that of this process's replicas, the first one's. EnforceNotMet
    where so many can't be parted as it says.
    """
    if trainers.size == 1:
        return trainers
    whole = _reducing(trainers, strategy, device)
    if not stage:
        return whole
    from refluid.comm.sharded import Sharded  # few programs have shares

    degree = strategy.sharding_degree or trainers.size
    if trainers.size % degree:
        raise EnforceNotMet(f"{trainers.size} trainers can't be parted into groups of {degree}")
    return Sharded(whole, degree, _half(strategy))


def _half(strategy: Strategy) -> torch.dtype | None:
    """The element type in which gradients go over the wire, None for their own."""
    halves = {"": None, "float16": torch.float16, "bfloat16": torch.bfloat16}
    return halves[strategy.exchange_type]


def _reducing(trainers: Communicator, strategy: Strategy, device: torch.device) -> Communicator:
    several, half = max(1, strategy.nccl_comm_num), _half(strategy)
    plain = not strategy.use_hierarchical_allreduce and half is None
    if several == 1 and plain and device.type == "cpu":
        return trainers
    from refluid.comm.by_nccl import by_nccl
    from refluid.comm.compressed import Compressed
    from refluid.comm.processes import Processes
    from refluid.comm.topology import Hierarchical, InTurn, groups_of  # most have one trainer

    def one() -> Communicator:
        own = trainers.split(0) or trainers
        if strategy.use_hierarchical_allreduce and isinstance(own, Processes):
            nranks = strategy.hierarchical_allreduce_inter_nranks
            own = Hierarchical(own, groups_of(own, nranks))
        elif plain and device.type == "cuda" and isinstance(own, Processes):
            own = by_nccl(own, device)
        return own if half is None else Compressed(own, half)

    return InTurn([one() for _ in range(several)])


def optimized(program: Program) -> set[str]:
    """Parameters, and what else the optimizer's updates write: shared in Reduce mode."""
    return {name for op in updates(program) for name in op.input_arg_names + op.output_arg_names}
