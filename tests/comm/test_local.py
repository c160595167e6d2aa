"""Replicas in threads exchange tensors."""

import threading

import pytest
import torch

from refluid.comm import LocalGroup
from refluid.core.errors import EnforceNotMet, PeerFailed
from refluid.core.selected_rows import SelectedRows
from refluid.runtime.replicas import Replicas


@pytest.fixture
def replicas():
    made = Replicas(3)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("reduction", "expected"), [("sum", 6.0), ("prod", 6.0), ("max", 3.0), ("min", 1.0)]
)
def test_reductions(replicas: Replicas, reduction: str, expected: float) -> None:
    def work(rank: int) -> list[torch.Tensor]:
        tensors = [torch.full((size,), rank + 1.0) for size in (1, 7, 100_003)]
        replicas.group.member(rank).all_reduce(tensors, reduction)
        return tensors

    for tensors in replicas.run(work):
        for tensor in tensors:
            assert (tensor == expected).all()


def test_every_replica_gets_the_same_bits(replicas: Replicas) -> None:
    values = [torch.randn(50_000) for _ in range(3)]

    def work(rank: int) -> torch.Tensor:
        mine = values[rank].clone()
        replicas.group.member(rank).all_reduce([mine])
        return mine

    first, second, third = replicas.run(work)
    assert torch.equal(first, second)
    assert torch.equal(first, third)
    assert torch.equal(first, values[0] + values[1] + values[2])


def test_layouts_other_than_contiguous(replicas: Replicas) -> None:
    def work(rank: int) -> torch.Tensor:
        mine = torch.full((4, 64, 16, 16), 1.0).to(memory_format=torch.channels_last)
        replicas.group.member(rank).all_reduce([mine])
        return mine

    assert all((tensor == 3.0).all() for tensor in replicas.run(work))


def test_broadcast_and_gather(replicas: Replicas) -> None:
    def work(rank: int) -> tuple[torch.Tensor, int]:
        member = replicas.group.member(rank)
        mine = torch.full((5,), float(rank))
        member.broadcast([mine], root=2)
        rows = member.all_gather(SelectedRows([rank], 3, torch.ones(1, 2)))
        return mine, sum(one.rows()[0] for one in rows)

    for tensor, rows in replicas.run(work):
        assert tensor.tolist() == [2.0] * 5
        assert rows == 3


def test_one_that_fails_wakes_the_others(replicas: Replicas) -> None:
    def work(rank: int) -> None:
        if rank == 1:
            raise ValueError("replica 1 is broken")
        replicas.group.member(rank).barrier()

    with pytest.raises(ValueError, match="replica 1 is broken"):
        replicas.run(work)
    assert replicas.run(lambda rank: replicas.group.member(rank).barrier()) == [None] * 3


def test_different_shapes_are_an_error(replicas: Replicas) -> None:
    def work(rank: int) -> None:
        replicas.group.member(rank).all_reduce([torch.zeros(rank + 1)])

    with pytest.raises(EnforceNotMet, match="different shapes"):
        replicas.run(work)


def test_threads_end() -> None:
    made = Replicas(2)
    made.run(lambda rank: None)
    made.close()
    for thread in threading.enumerate():
        if thread.name.startswith("refluid-replica"):
            thread.join(timeout=60)
    assert not any(thread.name.startswith("refluid-replica") for thread in threading.enumerate())


def test_what_is_started_after_a_failure_fails() -> None:
    group = LocalGroup(2)
    group.abort("replica 1 is broken")
    with pytest.raises(PeerFailed, match="replica 1 is broken"):
        group.member(0).all_reduce([torch.ones(1)], wait=False).wait()
    group.reset()
