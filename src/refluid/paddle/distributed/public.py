"""The public names of `paddle.distributed`, which its package takes from here."""

from __future__ import annotations

from typing import Any

from refluid.core.stub_making import stub
from refluid.paddle.distributed import entry_attr, fleet, stream
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
    alltoall_single,
    barrier,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
    wait,
)
from refluid.paddle.distributed.fleet.dataset import InMemoryDataset, QueueDataset
from refluid.paddle.distributed.groups import Group, get_group, get_rank, get_world_size, new_group
from refluid.paddle.distributed.objects import (
    all_gather_object,
    broadcast_object_list,
    scatter_object_list,
)
from refluid.paddle.distributed.pairs import P2POp, batch_isend_irecv, irecv, isend, recv, send
from refluid.paddle.distributed.parallel import (
    ParallelEnv,
    destroy_process_group,
    get_backend,
    gloo_barrier,
    gloo_init_parallel_env,
    gloo_release,
    init_parallel_env,
    is_available,
    is_initialized,
)
from refluid.paddle.distributed.spawning import MultiprocessContext, spawn
from refluid.paddle.distributed.splitting import split
from refluid.paddle.distributed.topology import ParallelMode

__all__ = [
    "CountFilterEntry",
    "Group",
    "InMemoryDataset",
    "MultiprocessContext",
    "P2POp",
    "ParallelEnv",
    "ParallelMode",
    "ProbabilityEntry",
    "QueueDataset",
    "ReduceOp",
    "ShowClickEntry",
    "all_gather",
    "all_gather_object",
    "all_reduce",
    "alltoall",
    "alltoall_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "entry_attr",
    "fleet",
    "gather",
    "get_backend",
    "get_group",
    "get_rank",
    "get_world_size",
    "gloo_barrier",
    "gloo_init_parallel_env",
    "gloo_release",
    "init_parallel_env",
    "irecv",
    "is_available",
    "is_initialized",
    "isend",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "scatter_object_list",
    "send",
    "spawn",
    "split",
    "stream",
    "wait",
]


def __getattr__(name: str) -> Any:
    return stub("refluid.paddle.distributed", name)
