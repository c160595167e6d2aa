"""Hierarchical exchanges, and several at once, give what the naive oracle computes."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from refluid.comm import ALONE, Communicator, stages
from refluid.comm.topology import Hierarchical, InTurn, groups_of
from refluid.core.errors import EnforceNotMet, PeerFailed
from tests.comm import naive
from tests.comm.groups import as_processes
from tests.comm.test_communicator import CASES, bits, drawn


@pytest.mark.parametrize(
    ("size", "seed"), [(2, 0), (3, 1), (4, 2), pytest.param(5, 3, marks=pytest.mark.slow)]
)
def test_any_groups_of_any_size(size: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members in any order and number in groups, chunks of any length, waited for or not."""
    draws = random.Random(seed)
    monkeypatch.setattr(stages, "_CHUNK", draws.choice([700, 3_000, 30_000]))
    monkeypatch.setattr(stages, "_LEAST", draws.choice([500, 5_000]))
    groups = [draws.randrange(3) for _ in range(size)]
    lanes = draws.randint(1, 3)
    given = [[drawn(rank, i, s, k) for i, (k, s) in enumerate(CASES)] for rank in range(size)]
    turns = [draws.choice(["sum", "max", "prod", "min"]) for _ in range(4)]

    def work(comm: Communicator) -> list[list[torch.Tensor]]:
        members = [Hierarchical(comm, groups[comm.rank]) for _ in range(lanes)]
        together = InTurn(members)
        found, works = [], []
        for turn, reduction in enumerate(turns):
            mine = [one.clone() for one in given[comm.rank]]
            works.append(together.all_reduce(mine, reduction, wait=turn == 1))
            found.append(mine)
        for one in works:
            one.wait()
        together.barrier()
        return found

    found = as_processes(size, work)
    for turn, reduction in enumerate(turns):
        columns = [naive.all_reduce(list(one), reduction) for one in zip(*given, strict=True)]
        for own in found:
            assert isinstance(own, list), own
            assert bits(own[turn]) == bits(found[0][turn])  # the same everywhere
            for mine, right in zip(own[turn], columns, strict=True):
                loose = mine.dtype is torch.bfloat16  # rounded in another order
                close = {"rtol": 0.03, "atol": 1e-5} if loose else {}
                torch.testing.assert_close(mine, right[0], **close)


def test_a_member_that_leaves_is_an_error_at_all_others() -> None:
    def work(comm: Communicator) -> Any:
        together = InTurn([Hierarchical(comm, comm.rank // 2) for _ in range(2)])
        if comm.rank == 3:
            together.close()
            raise ValueError("broken")
        works = [together.all_reduce([torch.ones(50)], wait=False) for _ in range(3)]
        for one in works:
            one.wait()

    found = as_processes(4, work, patience=5)
    assert isinstance(found[3], ValueError)
    assert all(isinstance(one, PeerFailed) for one in found[:3]), found


def test_groups_are_hosts_or_equal_parts() -> None:
    class Placed:
        def __init__(self, rank: int, size: int, local_size: int) -> None:
            self.rank, self.size, self.local_size = rank, size, local_size
            self.node = rank // local_size

    placed: Any = [Placed(rank, 7, 7) for rank in range(7)]
    assert [groups_of(one, 3) for one in placed] == [0, 0, 0, 1, 1, 2, 2]
    assert [groups_of(one, 0) for one in placed] == [0] * 7
    apart: Any = [Placed(rank, 6, 2) for rank in range(6)]
    assert [groups_of(one, 2) for one in apart] == [0, 0, 1, 1, 2, 2]
    assert groups_of(ALONE, 8) == 0


def test_shapes_that_differ_are_an_error() -> None:
    def work(comm: Communicator) -> str:
        with pytest.raises(EnforceNotMet) as caught:
            Hierarchical(comm, 0).all_reduce([torch.ones(1 + comm.rank)])
        return str(caught.value)

    assert all("differ in what they reduce by sum" in one for one in as_processes(2, work))
