"""`Setting`: all that decides how the program of one replica is rewritten."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch

from refluid.analysis.update_groups import GROUP
from refluid.core import flags
from refluid.engine.strategy import DEFAULT, ReduceStrategy, Strategy
from refluid.passes.data_parallel import GradientScaleStrategy, Parallel
from refluid.passes.gradient_merge import GradientMerge
from refluid.passes.mixed_precision import HalfPrecision
from refluid.passes.sharding import Sharding

_CPU = torch.device("cpu")
_MEGABYTE = 1 << 20
# A bucket that is exchanged while later gradients are still being computed, as DDP has it. Within a
# process nothing is sent: no more wait than are updated together.
_BUCKET = 25 * _MEGABYTE


@dataclass(frozen=True)
class Setting:
    """All that decides how a program is rewritten, for replica `rank` of several.

    kept: variables that are fed or fetched. as_written: only what is asked for, so that a profile
    shows the operators that the user wrote. attends: attention is one operator. finds_rows: dense
    gradients of tables may be rows. saves: less memory
    matters more than time. threads: of the replica. shares: the replicas have the same parameters.
    owning: in Reduce mode each makes the updates of its own parameters only. precision, merge: what
    an optimizer is asked for. inference: without gradients, updates and learning-rate schedules.
    stage: how much has owners among the trainers, 0 for nothing. sends: replicas of other processes
    take part. overlaps: gradients are exchanged with those while later ones are computed.
    """

    strategy: Strategy = DEFAULT
    kept: frozenset[str] = frozenset()
    device: torch.device = _CPU
    as_written: bool = False
    attends: bool = True
    finds_rows: bool = True
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
    sends: bool = False
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

    @property
    def updates_by_tiles(self) -> bool:
        """Whether large weights may be updated as their gradient is computed."""
        alone = self.replicas == 1 and self.device.type == "cpu"
        return alone and self.updates_early and not self.as_written


# A whole program in one process, by Fluid's defaults.
AS_USUAL = Setting()


# -- options of passes ------------------------------------------------------------


def parallel_of(setting: Setting) -> Parallel:
    """Of `data_parallel`."""
    strategy = setting.strategy
    return Parallel(
        setting.replicas,
        setting.loss,
        setting.rank,
        GradientScaleStrategy(int(strategy.gradient_scale_strategy)),
        *(_bucket(setting) if strategy.fuse_all_reduce_ops else (0, 0)),
        setting.reduces,
        setting.reduces and not setting.shares,
        strategy.fuse_broadcast_ops,
    )


def sharding_of(setting: Setting) -> Sharding:
    """Of `shard`."""
    strategy, plain = setting.strategy, parallel_of(setting)
    shares = strategy.sharding_degree or setting.replicas
    return Sharding(
        setting.replicas,
        setting.loss,
        setting.rank,
        plain.scale,
        plain.bucket_bytes,
        plain.bucket_count,
        share=setting.rank % shares,
        shares=shares,
        stage=setting.stage,
        segment_bytes=int(strategy.segment_megabytes * _MEGABYTE),
        anchors=strategy.segment_anchors,
        kept=setting.kept,
    )


def _bucket(setting: Setting) -> tuple[int, int]:
    """At how many bytes and, if not 0, how many gradients an exchange is begun."""
    strategy, near = setting.strategy, setting.device.type == "cpu" and not setting.sends
    if strategy.bucket_megabytes >= 0:
        return int(strategy.bucket_megabytes * _MEGABYTE), strategy.bucket_gradients
    size = float(flags.value("fuse_parameter_memory_size"))
    count = int(flags.value("fuse_parameter_groups_size"))
    usual = (GROUP if near else _BUCKET) if count == 1 else sys.maxsize
    return usual if size < 0 else int(size * _MEGABYTE), count if count > 1 else 0
