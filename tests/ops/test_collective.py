"""Operators by which replicas exchange values, in groups of threads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.comm import Communicator
from refluid.core.errors import EnforceNotMet
from refluid.ops.registry import find
from tests.comm.groups import as_threads

SIZE = 3


def given(rank: int) -> Tensor:
    return torch.arange(12.0).reshape(6, 2) * (rank + 1)


def ran(op_type: str, **attrs: Any) -> list[Any]:
    """What each replica gets of its own `given`, or the error it meets."""
    definition = find(op_type)
    assert definition is not None and definition.body is not None
    body = definition.body

    def work(comm: Communicator) -> Any:
        mine = given(comm.rank)
        made = body(mine, comm=comm, **attrs)
        assert torch.equal(mine, given(comm.rank)), "the input stays"
        return made

    return as_threads(SIZE, work)


@pytest.mark.parametrize(
    ("name", "reduction"),
    [("sum", torch.sum), ("max", torch.amax), ("min", torch.amin), ("prod", torch.prod)],
)
def test_reductions(name: str, reduction: Any) -> None:
    expected = reduction(torch.stack([given(rank) for rank in range(SIZE)]), 0)
    for made in ran(f"c_allreduce_{name}"):
        assert torch.equal(made, expected)


def test_broadcast() -> None:
    assert all(torch.equal(made, given(2)) for made in ran("c_broadcast", root=2))


def test_gathered_values_are_shared_out_again() -> None:
    """`c_reducescatter` takes apart, and sums, what `c_allgather` put together."""
    whole = torch.cat([given(rank) for rank in range(SIZE)])
    assert all(torch.equal(made, whole) for made in ran("c_allgather", nranks=SIZE))
    total = sum(given(rank) for rank in range(SIZE))
    for rank, made in enumerate(ran("c_reducescatter", nranks=SIZE)):
        assert torch.equal(made, total[2 * rank : 2 * rank + 2])
        assert made.is_contiguous() and made._base is None


def test_rows_that_cannot_be_shared_out() -> None:
    scatter = find("c_reducescatter")
    assert scatter is not None and scatter.body is not None
    body = scatter.body
    found = as_threads(SIZE, lambda comm: body(torch.ones(5, 2), comm=comm, nranks=SIZE))
    assert all(isinstance(one, Exception) for one in found)
    assert any(
        isinstance(one, EnforceNotMet)
        and "can't share the rows of a tensor of shape (5, 2)" in str(one)
        for one in found
    )


def test_shapes_are_known_before_a_run() -> None:
    scatter, gather = find("c_reducescatter"), find("c_allgather")
    assert scatter is not None and scatter.body is not None
    assert gather is not None and gather.body is not None
    rows = torch.empty(6, 2, device="meta")
    assert scatter.body(rows, comm=None, nranks=SIZE).shape == (2, 2)
    assert gather.body(rows, comm=None, nranks=SIZE).shape == (18, 2)
