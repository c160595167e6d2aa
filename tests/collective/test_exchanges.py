"""Exchanges of `paddle.distributed`: by a process alone, by three, and what is refused.

Two processes exchange in `test_paddle_fleet.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.paddle import distributed as dist
from tests.collective.exchanged import Drawn, divisions, exchange_in_three, reductions
from tests.collective.jobs import as_trainers


@pytest.mark.slow
def test_three_processes_exchange_and_meet_again(tmp_path: Path) -> None:
    assert as_trainers(3, exchange_in_three, folder=tmp_path) == ["the same"] * 3


def value(*numbers: float) -> Any:
    return fluid.dygraph.to_variable(np.array(numbers, "float32"))


def test_a_process_alone_exchanges_with_itself() -> None:
    with fluid.dygraph.guard():
        reductions(Drawn(0, 1, 5))
        divisions(Drawn(0, 1, 6))
        found: list[Any] = []
        dist.all_gather_object(found, {"a": 1})
        dist.broadcast_object_list(found, 0)
        dist.scatter_object_list(found, [*found, 7][:1])
        assert found == [{"a": 1}]
    assert dist.is_available() and dist.get_backend() == "GLOO" and not dist.is_initialized()
    dist.gloo_init_parallel_env(0, 1, "127.0.0.1:6170")
    dist.gloo_barrier()
    dist.gloo_release()


def test_groups_that_were_left_are_not_there() -> None:
    group = dist.new_group([0])
    assert dist.get_group(group.id) is group
    dist.destroy_process_group(group)
    with pytest.raises(ValueError, match=f"no group {group.id}"):
        dist.get_group(group.id)
    with pytest.raises(ValueError, match=f"no group {group.id}"):
        dist.destroy_process_group(group)
    group = dist.new_group([0])
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="no group"):
        dist.get_group(group.id)


def test_what_exchanges_refuse() -> None:
    with fluid.dygraph.guard():
        with pytest.raises(ValueError, match="takes as many, not 2"):
            dist.reduce_scatter(value(0.0), [value(1.0), value(2.0)])
        with pytest.raises(ValueError, match="has to sum to 3"):
            dist.alltoall_single(value(1, 2, 3), value(0, 0, 0), [2])
        with pytest.raises(ValueError, match=r"\[3\] rows came .* where \[2\]"):
            dist.alltoall_single(value(1, 2, 3), value(0, 0))
        with pytest.raises(ValueError, match="needs a gather_list"):
            dist.gather(value(1.0))
        with pytest.raises(ValueError, match="takes as many, not 2"):
            dist.scatter_object_list([], [1, 2])
        with pytest.raises(ValueError, match="op is one of"):
            dist.all_reduce(value(1.0), 9)
        with pytest.raises(RuntimeError, match=r"isend or .*irecv, not send"):
            dist.P2POp(dist.send, value(1.0), 0)
        with pytest.raises(RuntimeError, match="a list of"):
            dist.batch_isend_irecv([])
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [2, 2], "float32")
        for call in (
            lambda: dist.gather(x, []),
            lambda: dist.reduce_scatter(x, [x]),
            lambda: dist.alltoall_single(x, x),
            lambda: dist.all_reduce(x, dist.ReduceOp.AVG),
        ):
            with pytest.raises(NotImplementedError, match="for values of dygraph"):
                call()
