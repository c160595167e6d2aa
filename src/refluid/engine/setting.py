"""`Setting`: all that decides how the program of one replica is rewritten."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from refluid.engine.strategy import DEFAULT, ReduceStrategy, Strategy
from refluid.passes.gradient_merge import GradientMerge
from refluid.passes.mixed_precision import HalfPrecision

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Setting:
    """All that decides how a program is rewritten, for replica `rank` of several.

    kept: variables that are fed or fetched. as_written: only what is asked for, so that a profile
    shows the operators that the user wrote. attends: attention is one operator. saves: less memory
    matters more than time. threads: of the replica. shares: the replicas have the same parameters.
    owning: in Reduce mode each makes the updates of its own parameters only. precision, merge: what
    an optimizer is asked for. inference: without gradients, updates and learning-rate schedules.
    stage: how much has owners among the trainers, 0 for nothing. overlaps: gradients are exchanged
    with other processes while later ones are computed.
    """

    strategy: Strategy = DEFAULT
    kept: frozenset[str] = frozenset()
    device: torch.device = _CPU
    as_written: bool = False
    attends: bool = True
    saves: bool = False
    threads: int = 1
    loss: str | None = None
    replicas: int = 1
    rank: int = 0
    shares: bool = False
    owning: bool = True
    precision: HalfPrecision | None = None
    merge: GradientMerge | None = None
    inference: bool = False
    stage: int = 0
    overlaps: bool = False

    @property
    def reduces(self) -> bool:
        """Whether each replica updates its own part of the parameters."""
        several = self.strategy.reduce_strategy == ReduceStrategy.Reduce and self.replicas > 1
        return several and self.owning and not self.stage

    @property
    def updates_early(self) -> bool:
        """Whether updates needn't wait for all gradients.

        Where exchanges overlap, an early update would wait for its exchange before later gradients
        are computed.
        """
        waits = self.threads > 1 and self.strategy.enable_backward_optimizer_op_deps
        return self.strategy.memory_optimize is not False and not waits and not self.overlaps


# A whole program in one process, by Fluid's defaults.
AS_USUAL = Setting()
