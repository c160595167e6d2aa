"""Workers as a grid: which groups they make."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from refluid.core.errors import EnforceNotMet
from refluid.paddle.distributed import ParallelMode, fleet
from tests.collective.gridded import talk_of_all
from tests.collective.jobs import as_trainers

AXES = ["data", "pipe", "sharding", "sep", "model"]


def test_a_grid_as_paddle_has_it() -> None:
    """What Paddle 2.6.2 answers."""
    grid = fleet.CommunicateTopology(AXES, [2, 2, 1, 1, 2])
    assert grid.get_hybrid_group_names() == AXES
    assert (grid.world_size(), grid.get_dim("pipe"), grid.get_dim_size("model")) == (8, 2, 2)
    assert grid.get_rank(data=1, pipe=0, sharding=0, sep=0, model=1) == 5
    shown = "Coordinate(data=1, pipe=0, sharding=0, sep=0, model=1)"
    assert str(grid.get_coord(5)) == shown
    assert grid.get_axis_list("pipe", 1) == [2, 3, 6, 7]
    assert grid.get_fused_ranks(["pipe", "model"]) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert grid.get_comm_list("pipe") == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert grid.get_comm_list("data") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert grid.get_rank_from_stage(5, pipe=0, model=0) == 4


@pytest.mark.parametrize("seed", range(8))
def test_lists_of_any_grid_part_the_ranks(seed: int) -> None:
    draws = random.Random(seed)
    dims = [draws.randint(1, 4) for _ in AXES]
    grid = fleet.CommunicateTopology(AXES, dims)
    everyone = list(range(math.prod(dims)))
    assert [grid.get_rank(**grid.get_coord(one)._asdict()) for one in everyone] == everyone
    for fused in (AXES[:1], draws.sample(AXES, 2), draws.sample(AXES, 3)):
        lists = grid.get_fused_ranks(fused)
        assert sorted(one for part in lists for one in part) == everyone
        for part in lists:
            fixed = [name for name in AXES if name not in fused]
            assert (
                len({tuple(getattr(grid.get_coord(r), name) for name in fixed) for r in part}) == 1
            )


def test_one_worker_is_a_grid() -> None:
    fleet.init(is_collective=True)
    grid = fleet.get_hybrid_communicate_group()
    assert grid.get_parallel_mode() is None and grid.topology().world_size() == 1
    assert grid.get_model_parallel_group().ranks == (0,) and grid.get_rank_from_stage(0) == 0
    assert ParallelMode.PIPELINE_PARALLEL == 2
    with pytest.raises(EnforceNotMet, match=r"data 2 x pipe 1 .* makes 2 workers, and there are 1"):
        fleet.HybridCommunicateGroup(fleet.CommunicateTopology(AXES, [2, 1, 1, 1, 1]))
    with pytest.raises(ValueError, match="'rows' is no axis of data, pipe"):
        grid.topology().get_comm_list("rows")
    with pytest.raises(ValueError, match="a rank is told by data, pipe"):
        grid.topology().get_rank(data=0)


def test_groups_reach_who_is_in_them(tmp_path: Path) -> None:
    cases = [
        {"dp_degree": 2, "mp_degree": 2},
        {"pp_degree": 2, "mp_degree": 2, "dp_degree": 1},
        {"sharding_degree": 4},
        {"mp_degree": 3},
        {"mp_degree": 2, "order": ["mp", "pp", "sharding", "sep", "dp"]},
    ]
    found = as_trainers(4, talk_of_all, cases, folder=tmp_path)
    wanted = {"data": [[0, 2], [1, 3]], "model": [[0, 1], [2, 3]], "check": [[0, 1], [2, 3]]}
    for rank, own in enumerate(found):
        assert isinstance(own, list), own
        for axis, (number, ranks, told) in own[0].items():
            assert ranks == told and ranks[number] == rank
            assert ranks in wanted.get(axis, [[rank]])
        assert own[1]["check"][1] == own[2]["check"][1] == [0, 1, 2, 3]
        assert own[1]["pipe"][:2] == (rank // 2, [rank % 2, rank % 2 + 2])
        assert own[2]["data"][1] == [rank] and own[2]["sharding"][0] == rank
        assert own[3] == "mp_degree 3 must be the number of workers, which is 4"
        assert own[4]["model"][1] == [[0, 2], [1, 3]][rank % 2] and own[4]["data"][0] == rank % 2
