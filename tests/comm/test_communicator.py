"""Every way to communicate does what the naive oracle computes, and nothing hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.comm import ALONE, Communicator
from refluid.comm.processes import meet
from refluid.core.errors import EnforceNotMet, PeerFailed
from refluid.core.selected_rows import SelectedRows
from tests.choices import crossed
from tests.comm import naive
from tests.comm.groups import as_processes, as_threads, free_address
from tests.interrupting import interrupted_in

Run = Callable[..., list[Any]]
KINDS = [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.uint8]
SHAPES = [(0,), (1,), (), (3, 0, 2), (7,), (4, 3), (2, 5, 2), (20_001,)]


@pytest.fixture(params=[as_threads, as_processes], ids=["threads", "processes"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.param  # type: ignore[no-any-return]


def drawn(rank: int, seed: int, shape: tuple[int, ...], kind: torch.dtype) -> Tensor:
    draws = torch.Generator().manual_seed(1000 * seed + rank)
    return (torch.rand(shape, generator=draws) * 5).to(kind)


def bits(values: Any) -> Any:
    """What can be compared."""
    if isinstance(values, Tensor):
        return str(values.dtype), tuple(values.shape), values.double().tolist()
    if isinstance(values, SelectedRows):
        return values.rows(), values.height(), bits(values.value)
    return [bits(one) for one in values] if isinstance(values, list) else values


def expect(found: list[Any], wanted: list[Any]) -> None:
    for rank, (one, right) in enumerate(zip(found, wanted, strict=True)):
        if isinstance(one, BaseException):
            raise one
        assert bits(one) == bits(right), f"at member {rank}"


CASES = [(kind, shape) for kind in KINDS for shape in SHAPES]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_reductions(run: Run, size: int) -> None:
    """All element types and shapes, waited for at once or later, in groups of several tensors."""
    for seed, reduction in enumerate(naive.STEPS):
        given = [[drawn(rank, i, s, k) for i, (k, s) in enumerate(CASES)] for rank in range(size)]

        def work(comm: Communicator) -> list[Tensor]:
            mine = [one.clone() for one in given[comm.rank]]  # noqa: B023
            half = len(mine) // 2
            started = comm.all_reduce(mine[:half], reduction, wait=False)  # noqa: B023
            assert comm.all_reduce(mine[half:], reduction).done()  # noqa: B023
            started.wait()
            assert started.done()
            return mine

        found = run(size, work)
        columns = [list(column) for column in zip(*given, strict=True)]
        rows = [naive.all_reduce(column, reduction) for column in columns]
        expect(found, [list(row) for row in zip(*rows, strict=True)])
        if seed and size == 4:
            break


def test_started_exchanges_follow_one_another(run: Run) -> None:
    def work(comm: Communicator) -> list[float]:
        tensors = [torch.tensor([float(comm.rank + turn)]) for turn in range(20)]
        works = [comm.all_reduce([one], "max", wait=False) for one in tensors]
        comm.barrier()
        for one in reversed(works):
            one.wait()
        return [one.item() for one in tensors]

    assert run(3, work) == [[2.0 + turn for turn in range(20)]] * 3


def test_layouts_and_equal_bits(run: Run) -> None:
    given = [drawn(rank, 3, (2, 300, 5, 7), torch.float32) for rank in range(3)]

    def work(comm: Communicator) -> list[Tensor]:
        mine = given[comm.rank].to(memory_format=torch.channels_last, copy=True)
        turned = given[comm.rank].clone()
        comm.all_reduce([mine, turned])
        assert mine.is_contiguous(memory_format=torch.channels_last)
        return [mine, turned]

    wanted = naive.all_reduce(given, "sum")
    expect(run(3, work), [[one, one] for one in wanted])


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_others(run: Run, size: int) -> None:
    ranks = range(size)
    for seed, kind in enumerate(KINDS):
        whole = [drawn(rank, seed, (size * (seed % 3), 3), kind) for rank in ranks]
        ragged = [drawn(rank, seed, (rank, seed), kind) for rank in ranks]
        parts = [[drawn(r, seed, (r + to, 2), kind) for to in ranks] for r in ranks]
        rows = [SelectedRows(list(range(rank)), 9, torch.ones(rank, 2)) for rank in ranks]
        root = seed % size

        def work(comm: Communicator) -> list[Any]:
            mine = whole[comm.rank].clone()  # noqa: B023
            share = comm.reduce_scatter(mine, "max")
            comm.broadcast([mine], root)  # noqa: B023
            comm.barrier()
            gathered = [comm.all_gather(one[comm.rank]) for one in (ragged, rows)]  # type: ignore[index]  # noqa: B023
            return [share, mine, *gathered, comm.all_to_all(parts[comm.rank])]  # noqa: B023

        wanted = [
            naive.reduce_scatter(whole, "max") if whole[0].numel() else whole,
            naive.broadcast(whole, root),
            naive.all_gather(ragged),
            naive.all_gather(rows),
            naive.all_to_all(parts),
        ]
        expect(run(size, work), [list(row) for row in zip(*wanted, strict=True)])


def test_messages_keep_their_order(run: Run) -> None:
    """By tag and sender; those who send needn't wait for those who receive."""
    large = torch.arange(300_000)

    def work(comm: Communicator) -> list[Any]:
        others = [rank for rank in range(comm.size) if rank != comm.rank]
        for other in others:
            for turn in range(3):
                mine = large + comm.rank + turn
                comm.send([mine, torch.empty(0)], other, tag=turn % 2)
                mine.zero_()
        found = []
        for other in others[::-1]:
            for turn in (1, 0, 2):
                into = [torch.empty(300_000, dtype=torch.int64), torch.empty(0)]
                comm.recv(into, other, tag=turn % 2)
                found.append(bool((into[0] == large + other + turn).all()))
        return found

    assert run(3, work) == [[True] * 6] * 3


GROUPS = [
    [(0, 0), (1, 0), (0, 0), (1, 0)],
    [(0, 3), (0, 2), (0, 1), (0, 0)],
    [(5, 0), (None, 0), (5, -1), (7, 0)],
    [(None, 0)] * 4,
]


@pytest.mark.parametrize("given", GROUPS, ids=str)
def test_parts(run: Run, given: list[tuple[int | None, int]]) -> None:
    def work(comm: Communicator) -> Any:
        part = comm.split(*given[comm.rank])
        comm.barrier()
        if part is None:
            return None
        assert (part.local_rank, part.local_size, part.node) == (part.rank, part.size, 0)
        total = torch.tensor([1.0])
        part.all_reduce([total], wait=False).wait()
        assert total.item() == part.size
        found = [int(one) for one in part.all_gather(torch.tensor(comm.rank))]  # type: ignore[arg-type]
        assert found[part.rank] == comm.rank
        part.close() if comm.size > 4 else None
        return found

    assert run(4, work) == naive.split(given)


def test_what_does_not_fit_is_an_error_at_all_members(run: Run) -> None:
    def differing(comm: Communicator) -> list[str]:
        tries: list[Callable[[], Any]] = [
            lambda: comm.all_reduce([torch.zeros(comm.rank + 1)]),
            lambda: comm.all_reduce([torch.zeros(1)] * (comm.rank + 1)),
            lambda: comm.all_reduce([torch.zeros(comm.rank + 1)], wait=False).wait(),
            lambda: comm.reduce_scatter(torch.zeros(3 * (comm.rank + 1))),
            lambda: comm.reduce_scatter(torch.zeros(4)),
            lambda: comm.broadcast([torch.zeros(comm.rank + 1)], 0),
            lambda: comm.all_to_all([torch.zeros(1)]),
            lambda: comm.send([], comm.rank),
            lambda: comm.recv([], 9),
        ]
        said = []
        for one in tries:
            with pytest.raises(EnforceNotMet) as caught:
                one()
            said.append(str(caught.value))
        comm.barrier()  # and they go on
        return said

    for said in run(3, differing):
        assert not isinstance(said, BaseException), said
        told = ("of different shapes", "differ in what they")
        assert all(any(part in one for part in told) for one in [*said[:4], said[5]]), said
        assert "can't share the rows" in said[4] and "no other one" in said[-1]


@pytest.mark.parametrize("method", ["all_reduce", "started", "barrier", "recv", "all_to_all"])
def test_a_member_that_dies(run: Run, method: str) -> None:
    """Is an error at all others, soon: they don't wait until their patience ends."""

    def work(comm: Communicator) -> Any:
        comm.barrier()
        if comm.rank == 1:
            raise ValueError("member 1 is broken")
        calls: dict[str, Callable[[], Any]] = {
            "all_reduce": lambda: comm.all_reduce([torch.ones(100_000)]),
            "started": lambda: comm.all_reduce([torch.ones(10)], wait=False).wait(),
            "barrier": comm.barrier,
            "recv": lambda: comm.recv([torch.ones(1)], 1),
            "all_to_all": lambda: comm.all_to_all([torch.ones(3)] * 3),
        }
        calls[method]()

    start = time.monotonic()
    first, broken, third = run(3, work)
    assert time.monotonic() - start < 20
    assert isinstance(broken, ValueError)
    for error in (first, third):
        assert isinstance(error, PeerFailed), error
        assert "1 of 3" in str(error), error


@pytest.mark.parametrize(
    ("run", "method"),
    crossed(
        [as_threads, as_processes],
        ["all_reduce", "recv"],
        fast=[(as_threads, "recv"), (as_processes, "all_reduce")],
    ),
    indirect=["run"],
)
def test_a_member_that_does_nothing(run: Run, method: str) -> None:
    def work(comm: Communicator) -> Any:
        comm.barrier()
        if comm.rank == 1:
            time.sleep(3.0)
        elif method == "recv":
            comm.recv([torch.ones(1)], 1)
        else:
            comm.all_reduce([torch.ones(4)])

    first, _, third = run(3, work, patience=1.0)
    for error in (first, third):
        assert isinstance(error, PeerFailed), error
        assert ("1 of 3" if run is as_processes else "of 3") in str(error), error


def test_a_group_of_one() -> None:
    one = torch.arange(3.0)
    assert ALONE.all_reduce([one]).done() and one.tolist() == [0.0, 1.0, 2.0]
    assert ALONE.split(0) is ALONE and ALONE.split(None) is None
    assert ALONE.all_gather(one) == [one] and ALONE.all_to_all([one]) == [one]
    with pytest.raises(EnforceNotMet):
        ALONE.send([one], 0)


def test_ctrl_c_in_an_exchange_does_not_wait_for_the_others() -> None:
    where, ended, begun = free_address(), threading.Event(), time.monotonic()

    def idle() -> None:
        comm = meet(1, 2, where, wait=60, patience=60)
        ended.wait(60)
        comm.close()

    other = threading.Thread(target=idle, daemon=True)
    other.start()
    comm = meet(0, 2, where, wait=60, patience=60)
    with interrupted_in("barrier"):
        comm.barrier()
    assert time.monotonic() - begun < 30
    with pytest.raises(PeerFailed, match="interrupted"):
        comm.barrier()
    ended.set()
    other.join(60)
    comm.close()
