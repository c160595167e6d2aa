"""Replicas in several processes exchange as if they were one group."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from refluid.comm import Communicator, LocalGroup
from refluid.comm.grid import ReplicaGrid
from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from tests.comm import naive
from tests.comm.groups import PATIENCE, as_processes, together
from tests.comm.test_communicator import KINDS, SHAPES, bits, drawn


def as_grid(height: int, width: int, work: Any) -> list[Any]:
    """`work` of each replica of `height` processes with `width` places; by rank."""

    def process(comm: Communicator) -> list[Any]:
        group = LocalGroup(width, PATIENCE)
        columns = [comm.split(0) for _ in range(width)]
        ends = [
            ReplicaGrid(group.member(one), column) for one, column in enumerate(columns) if column
        ]
        try:
            return together([lambda end=end: work(end) for end in ends])  # type: ignore[misc]
        finally:
            for end in ends:
                end.close()

    found = []
    for rows in as_processes(height, process):
        assert isinstance(rows, list), rows
        found += rows
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found


@pytest.mark.parametrize(("height", "width"), [(2, 2), (3, 2), (2, 3)])
def test_a_grid_does_what_the_oracle_computes(height: int, width: int) -> None:
    size = height * width
    ranks = range(size)
    reduced = [[drawn(rank, i, s, KINDS[i % 6]) for i, s in enumerate(SHAPES)] for rank in ranks]
    ragged = [drawn(rank, 1, (rank, 2), torch.float32) for rank in ranks]
    rows = [SelectedRows(list(range(rank)), 9, torch.ones(rank, 2)) for rank in ranks]
    parts = [[drawn(r, 2, (r + to, 2), torch.int64) for to in ranks] for r in ranks]
    shared = [drawn(rank, 4, (size * 2, 3), torch.float64) for rank in ranks]

    def work(comm: Communicator) -> list[Any]:
        assert comm.size == size and (comm.local_rank, comm.local_size) == (comm.rank, size)
        mine = [one.clone() for one in reduced[comm.rank]]
        assert comm.all_reduce(mine, "max", wait=False).done()
        share = comm.reduce_scatter(shared[comm.rank], "min")
        sent = ragged[-2].clone() if comm.rank == size - 2 else torch.empty_like(ragged[-2])
        comm.broadcast([sent], size - 2)
        comm.barrier()
        comm.agree(["run", "the same"])
        gathered = [comm.all_gather(one[comm.rank]) for one in (ragged, rows)]  # type: ignore[index]
        return [*mine, share, sent, *gathered, comm.all_to_all(parts[comm.rank])]

    found = as_grid(height, width, work)
    columns = [naive.all_reduce(list(one), "max") for one in zip(*reduced, strict=True)]
    others = [
        naive.reduce_scatter(shared, "min"),
        naive.broadcast(ragged, size - 2),
        naive.all_gather(ragged),
        naive.all_gather(rows),
        naive.all_to_all(parts),
    ]
    for one, right in zip(found, zip(*columns, *others, strict=True), strict=True):
        assert bits(one) == bits(list(right))


def test_sums_are_the_same_bits_everywhere() -> None:
    given = [drawn(rank, 3, (20_011,), torch.float32) for rank in range(4)]

    def work(comm: Communicator) -> torch.Tensor:
        mine = given[comm.rank].clone()
        comm.all_reduce([mine])
        return mine

    found = as_grid(2, 2, work)
    assert all(bits(one) == bits(found[0]) for one in found)
    torch.testing.assert_close(found[0], sum(given))


def test_a_row_and_a_column_can_be_sent_along() -> None:
    def work(comm: Communicator) -> list[float]:
        found = []
        for other in (comm.rank ^ 1, comm.rank ^ 2):
            comm.send([torch.tensor([float(comm.rank)])], other)
            mine = torch.empty(1)
            comm.recv([mine], other)
            found.append(mine.item())
        with pytest.raises(EnforceNotMet, match="one place for each process"):
            comm.send([torch.ones(1)], comm.rank ^ 3)
        with pytest.raises(EnforceNotMet, match="can't be split"):
            comm.split(0)
        with pytest.raises(EnforceNotMet, match="differ in what they run"):
            comm.agree(["run", f"process {comm.rank // 2}"])
        return found

    assert as_grid(2, 2, work) == [[rank ^ 1, rank ^ 2] for rank in range(4)]
