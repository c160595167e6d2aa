"""Members that own shares, and exchanges in 16 bits, give what the naive oracle computes."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.comm import Communicator
from refluid.comm.compressed import Compressed
from refluid.comm.link import Purpose
from refluid.comm.sharded import Sharded
from refluid.core.errors import EnforceNotMet
from tests.comm.groups import as_processes, as_threads

SHAPES = [(3, 5), (7,), (), (2, 0), (11, 2)]
KINDS = [torch.float32, torch.float64, torch.float32, torch.int64, torch.float32]


def drawn(rank: int) -> list[Tensor]:
    draws = torch.Generator().manual_seed(rank)
    pairs = zip(SHAPES, KINDS, strict=True)
    return [(torch.rand(shape, generator=draws) * 9 - 4).to(kind) for shape, kind in pairs]


def summed(ranks: range, tensors: list[list[Tensor]], number: int) -> Tensor:
    total = tensors[ranks[0]][number].clone()
    for rank in ranks[1:]:
        total += tensors[rank][number]
    return total


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize(("size", "degree"), [(1, 1), (2, 2), (3, 3), (4, 2), (4, 4)])
def test_sums_come_to_owners_and_values_from_them(size: int, degree: int, wait: bool) -> None:
    given = [drawn(rank) for rank in range(size)]
    owners = [number % degree for number in range(len(SHAPES))]

    def work(comm: Communicator) -> None:
        shared = Sharded(comm, degree)
        mine = [one.clone() for one in given[comm.rank]]
        begun = shared.reduce_to(mine, owners, wait)
        begun.wait()
        for number, owner in enumerate(owners):
            if owner == shared.share:
                near = summed(range(size), given, number)
                torch.testing.assert_close(mine[number], near, rtol=1e-6, atol=1e-6)
        have = [torch.full_like(one, owner) for one, owner in zip(mine, owners, strict=True)]
        pairs = list(zip(have, owners, strict=True))
        own = [one for one, owner in pairs if owner == shared.share]
        others = [torch.zeros_like(one) for one, owner in pairs if owner != shared.share]
        begun = shared.spread(own, others, owners, wait)
        own[0].fill_(99) if own else None  # what was given may be changed at once
        begun.wait()
        wanted = [one for one, owner in pairs if owner != shared.share]
        assert all(torch.equal(one, right) for one, right in zip(others, wanted, strict=True))
        assert all((one == 99).all() for one in own[:1])

    for found in as_processes(size, work):
        if found is not None:
            raise found


def test_members_that_do_different_things_are_told(caplog: pytest.LogCaptureFixture) -> None:
    def work(comm: Communicator) -> str:
        shared = Sharded(comm, 2)
        value = torch.ones(3)
        with pytest.raises(EnforceNotMet) as caught:
            if comm.rank == 0:
                shared.reduce_to([value], [0], True)
            else:
                shared.spread([], [value], [0], True)
        return str(caught.value)

    for said in as_processes(2, work):
        assert "sum at owners" in said and "take from owners" in said


@pytest.mark.parametrize("run", [as_threads, as_processes], ids=["threads", "processes"])
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_sums_in_16_bits(run: object, half: torch.dtype) -> None:
    """Each value is rounded once, their sum in float32 once more; other types are exact."""
    size = 3
    given = [drawn(rank) for rank in range(size)]

    def work(comm: Communicator, wait: bool) -> list[Tensor]:
        mine = [one.clone() for one in given[comm.rank]]
        Compressed(comm, half).all_reduce(mine, wait=wait).wait()
        return mine

    rounded = [[one.to(half).float() for one in row] for row in given]
    for wait in (True, False):
        for found in run(size, partial(work, wait=wait)):  # type: ignore[operator]
            assert isinstance(found, list), found
            for number, (value, kind) in enumerate(zip(found, KINDS, strict=True)):
                exact = summed(range(size), given, number)
                if kind is torch.float32:
                    exact = summed(range(size), rounded, number).to(half).float()
                assert torch.equal(value, exact), number


def test_16_bits_are_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half as many bytes as of float32 go to and from each member."""
    from refluid.comm.link import PeerLink

    sent: list[int] = []
    sending = PeerLink.sending

    def counted(self: PeerLink, tensor: Tensor, to: int, purpose: Purpose) -> Any:
        sent.append(tensor.nbytes)
        return sending(self, tensor, to, purpose)

    monkeypatch.setattr(PeerLink, "sending", counted)

    def work(comm: Communicator, half: torch.dtype | None) -> int:
        reducing = comm if half is None else Compressed(comm, half)
        comm.barrier()
        if comm.rank == 0:
            sent.clear()
        comm.barrier()
        reducing.all_reduce([torch.ones(20_000)])
        comm.barrier()
        return sum(one for one in sent if one > 4_000)

    plain = as_processes(2, partial(work, half=None))
    small = as_processes(2, partial(work, half=torch.float16))
    assert max(small) * 2 == max(plain) > 0
