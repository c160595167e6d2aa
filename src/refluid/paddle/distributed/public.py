"""The public names of `paddle.distributed`, which its package takes from here."""

from __future__ import annotations

from typing import Any

from refluid.core.stub_making import stub
from refluid.paddle.distributed import entry_attr, fleet
from refluid.paddle.distributed.entry_attr import (
    CountFilterEntry,
    ProbabilityEntry,
    ShowClickEntry,
)
from refluid.paddle.distributed.exchanges import (
    ReduceOp,
    all_gather,
    all_reduce,
    alltoall,
    barrier,
    broadcast,
    recv,
    reduce,
    scatter,
    send,
    wait,
)
from refluid.paddle.distributed.fleet.dataset import InMemoryDataset, QueueDataset
from refluid.paddle.distributed.groups import Group, get_group, get_rank, get_world_size, new_group
from refluid.paddle.distributed.parallel import ParallelEnv, init_parallel_env, is_initialized
from refluid.paddle.distributed.spawning import MultiprocessContext, spawn
from refluid.paddle.distributed.splitting import split
from refluid.paddle.distributed.topology import ParallelMode

__all__ = [
    "CountFilterEntry",
    "Group",
    "InMemoryDataset",
    "MultiprocessContext",
    "ParallelEnv",
    "ParallelMode",
    "ProbabilityEntry",
    "QueueDataset",
    "ReduceOp",
    "ShowClickEntry",
    "all_gather",
    "all_reduce",
    "alltoall",
    "barrier",
    "broadcast",
    "entry_attr",
    "fleet",
    "get_group",
    "get_rank",
    "get_world_size",
    "init_parallel_env",
    "is_initialized",
    "new_group",
    "recv",
    "reduce",
    "scatter",
    "send",
    "spawn",
    "split",
    "wait",
]


def __getattr__(name: str) -> Any:
    return stub("refluid.paddle.distributed", name)
