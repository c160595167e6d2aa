"""What flags, a strategy and instruments say at one moment of how programs are to be run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from refluid.comm import Communicator
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.notices import tell_once
from refluid.engine.strategy import ReduceStrategy, Strategy
from refluid.runtime.kernels import KernelSettings, asked_for
from refluid.runtime.memory import Memory, memory_as_set
from refluid.runtime.request import Instruments

_NO_SHARES = (
    "reduce_strategy Reduce: trainers of several places each sum all gradients at all, as "
    "AllReduce does, and none owns a share; give each trainer one place for that"
)


@dataclass(frozen=True)
class Conditions:
    """Equal ones give the same plans. alone: one place, as `Executor` runs plain programs.

    overlaps: exchanges go on while a plan computes, where the communicator can. bucket: MB of
    gradients that are exchanged together, as flags say. trainers: how many
    processes train together, this being number `trainer`. counts: loops may count in Python.
    sums_rows: gradients that loops add up may wait for the rows of all rounds. attends: attention
    is one operator, where devices have a kernel for it. finds_rows: gradients of tables may be rows
    though dense ones were asked for.
    """

    strategy: Strategy
    devices: tuple[torch.device, ...]
    memories: tuple[Memory, ...]
    kernels: KernelSettings
    watched: Instruments
    alone: bool
    overlaps: bool = False
    bucket: float = -1.0
    trainers: int = 1
    trainer: int = 0
    counts: bool = True
    sums_rows: bool = True
    attends: bool = True
    finds_rows: bool = True

    @property
    def replicas(self) -> int:
        """How many replicas there are, in all processes."""
        return len(self.devices) * self.trainers

    @property
    def stage(self) -> int:
        """How much of what is trained has owners among the trainers: `Strategy.sharding_stage`."""
        return stage_of(self.strategy, self.trainers, len(self.devices))

    @property
    def threads(self) -> int:
        """Threads of each replica that run operators."""
        if self.strategy.enable_sequential_execution:
            return 1
        return max(1, self.strategy.num_threads // len(self.devices))

    @property
    def shares(self) -> bool:
        """Whether all replicas share the parameters."""
        return self.trainers == 1 and shares_parameters(self.strategy, self.devices)

    @property
    def batches(self) -> bool:
        """Whether the replicas may run as one step of one thread."""
        on_cpu = all(device.type == "cpu" for device in self.devices)
        one_thread = self.threads == 1 and not self.strategy.compiles and not self.watched
        in_one_process = self.trainers == 1 and len(self.devices) > 1
        return on_cpu and in_one_process and one_thread


def conditions(
    strategy: Strategy,
    devices: Sequence[torch.device],
    watched: Instruments,
    trainers: Communicator,
    *,
    alone: bool,
) -> Conditions:
    """The conditions of now. trainers: the processes that train together."""
    optimize = (strategy.memory_optimize or False) if alone else strategy.memory_optimize
    memories = tuple(
        memory_as_set(device, in_place=strategy.enable_inplace, optimize=optimize)
        for device in devices
    )
    kernels = asked_for(strategy.mkldnn_enabled_op_types)
    overlaps = bool(flags.value("refluid_overlap_exchange")) and not alone
    bucket = -1.0 if alone else float(flags.value("fuse_parameter_memory_size"))
    exchange = overlaps, bucket, trainers.size, trainers.rank
    ways = (
        bool(flags.value("refluid_counted_loops")) and not watched,
        bool(flags.value("refluid_loop_row_sums")) and not watched,
        bool(flags.value("refluid_fused_attention")) and not watched,
        bool(flags.value("refluid_found_rows")) and not watched,
    )
    return Conditions(strategy, tuple(devices), memories, kernels, watched, alone, *exchange, *ways)


def stage_of(strategy: Strategy, trainers: int, places: int) -> int:
    """The stage of sharding; Reduce mode between processes of one place is the second.

    Between processes of several places it has none, which the log says.

    EnforceNotMet where trainers with several places each are asked for one.
    """
    reduces = strategy.reduce_strategy == ReduceStrategy.Reduce
    if trainers == 1 or not (reduces or strategy.sharding_stage):
        return 0
    if places == 1:
        return strategy.sharding_stage or 2
    if strategy.sharding_stage:
        raise EnforceNotMet("sharding is among trainers of one place each: give each one device")
    tell_once(_NO_SHARES)
    return 0


def shares_parameters(strategy: Strategy, devices: Sequence[torch.device]) -> bool:
    """Whether replicas on these devices have their parameters in common."""
    reduce = strategy.reduce_strategy == ReduceStrategy.Reduce and len(devices) > 1
    return reduce and all(device.type == "cpu" for device in devices)
