"""What each worker of a test of hybrid degrees does."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.comm.world import ring
from refluid.paddle.distributed import fleet, get_group

Groups = dict[str, tuple[int, list[int], list[float]]]


def talk(degrees: dict[str, int]) -> Groups | str:
    """Of each axis: this worker's number, the group's ranks, and those that an exchange tells."""
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = degrees
    try:
        fleet.init(is_collective=True, strategy=strategy)
    except ValueError as error:
        return str(error)
    grid = fleet.get_hybrid_communicate_group()
    own, found = grid.get_global_rank(), {}
    groups = {
        "data": (grid.get_data_parallel_rank(), grid.get_data_parallel_group()),
        "pipe": (grid.get_stage_id(), grid.get_pipe_parallel_group()),
        "sharding": (grid.get_sharding_parallel_rank(), grid.get_sharding_parallel_group()),
        "model": (grid.get_model_parallel_rank(), grid.get_model_parallel_group()),
        "check": (grid.get_check_parallel_group().rank, grid.get_check_parallel_group()),
    }
    for name, (number, group) in groups.items():
        told: Any = group.comm.all_gather(_tensor(own))
        assert get_group(group.id).ranks == group.ranks
        assert ring(group.id).size == group.nranks
        found[name] = number, list(group.ranks), [float(one) for one in told]
    return found


def talk_of_all(cases: list[dict[str, int]]) -> list[Groups | str]:
    """The same by each of several grids."""
    return [talk(one) for one in cases]


def _tensor(value: float) -> Any:
    import torch

    return torch.from_numpy(np.array(value))
