"""Exchanges in stages: their order, and the memory in which they reduce."""

from __future__ import annotations

import itertools
import random
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from refluid.comm.link import PeerLink, Purpose
from refluid.comm.reducing import WIDE_SUM, as_one, reduce_at, side_by_side, take_apart
from refluid.comm.roll_call import RollCall
from refluid.comm.stages import Stages, chunks, finish, in_flight
from tests.comm import naive


class Begun:
    """Messages that note when they are waited for."""

    def __init__(self, what: str, notes: list[str]) -> None:
        self.what, self.notes = what, notes

    def wait(self) -> None:
        self.notes.append(f"wait {self.what}")


def staged(name: str, stages: int, notes: list[str]) -> Stages:
    for stage in range(stages):
        notes.append(f"begin {name}{stage}")
        yield Begun(f"{name}{stage}", notes)  # type: ignore[misc]
    notes.append(f"end {name}")


def test_one_goes_on_while_another_waits() -> None:
    notes: list[str] = []
    finish(in_flight((staged(name, 2, notes) for name in "abc"), 2))
    assert notes == [
        *("begin a0", "begin b0", "wait a0", "begin a1", "wait b0", "begin b1", "wait a1", "end a"),
        *("begin c0", "wait b1", "end b", "wait c0", "begin c1", "wait c1", "end c"),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_all_end_in_order_and_never_more_are_under_way(seed: int) -> None:
    draws = random.Random(seed)
    count, stages, most = draws.randint(0, 9), draws.randint(1, 5), draws.randint(1, 5)
    notes: list[str] = []
    finish(in_flight((staged(f"{one}.", stages, notes) for one in range(count)), most))
    ends = [one for one in notes if one.startswith("end")]
    assert ends == [f"end {one}." for one in range(count)]
    under_way = [
        one.startswith("begin") - one.startswith("wait") for one in notes if not one.startswith("e")
    ]
    assert max(itertools.accumulate(under_way), default=0) == min(most, count)


def test_an_error_ends_all_that_go_on() -> None:
    ended: list[str] = []

    def broken(name: str) -> Stages:
        try:
            yield Begun(name, [])  # type: ignore[misc]
            raise ValueError(name)
        finally:
            ended.append(name)

    with pytest.raises(ValueError, match="a"):
        finish(in_flight(map(broken, "abc"), 3))
    assert sorted(ended) == ["a", "b", "c"]


@pytest.mark.parametrize("seed", range(6))
def test_copies_side_by_side_are_exchanged_where_they_are(seed: int) -> None:
    draws = random.Random(seed)
    kinds = [torch.float32, torch.int64, torch.bfloat16]
    shapes = [(), (0,), (3, 5), (7,), (2, 0), (4, 3, 2), (1,)]
    given = [(torch.rand(draws.choice(shapes)) * 9).to(draws.choice(kinds)) for _ in range(12)]
    copies = side_by_side(given)
    assert all(torch.equal(one, other) for one, other in zip(given, copies, strict=True))
    for kind in {one.dtype for one in given}:
        before = [one for one in given if one.dtype is kind]
        own = [one for one in copies if one.dtype is kind]
        whole = as_one(own)
        assert torch.equal(whole, as_one([one.clone() for one in before]))
        whole.mul_(2)
        if sum(one.numel() for one in own):
            assert all(torch.equal(one, was * 2) for one, was in zip(own, before, strict=True))
        shuffled = own[::-1]
        elsewhere = as_one(shuffled).clone().add_(1)
        take_apart(elsewhere, shuffled)
        assert all(torch.equal(one, was * 2 + 1) for one, was in zip(own, before, strict=True))


@pytest.mark.parametrize("reduction", [*naive.STEPS, WIDE_SUM])
def test_reduced_where_a_copy_is(reduction: str) -> None:
    for size in range(1, 6):
        for rank in range(size):
            copies = [torch.rand(11) for _ in range(size)]
            wide = reduction == WIDE_SUM
            copies = [one.bfloat16() for one in copies] if wide else copies
            floats = [one.float() for one in copies]
            wanted = naive.all_reduce(floats, "sum" if wide else reduction)[0].to(copies[0].dtype)
            reduce_at(rank, copies, reduction)
            assert torch.equal(copies[rank], wanted), (size, rank)


def test_chunks_are_all_of_it() -> None:
    for count in (0, 1, 65_535, 65_537, 300_000, 5_000_001):
        whole = torch.arange(count)
        found = list(chunks(whole))
        assert torch.equal(torch.cat(found), whole)
        assert all(one.data_ptr() == whole.data_ptr() + 8 * start for one, start in _starts(found))
        assert len(found) <= 5


def _starts(parts: list[Tensor]) -> Any:
    held = [one for one in parts if one.numel()]
    return zip(held, itertools.accumulate((len(one) for one in held), initial=0), strict=False)


def test_memory_of_what_is_received_is_used_again() -> None:
    link = PeerLink(None, 0, [0], cast(RollCall, None))
    with link.scratch(torch.empty(100), 3) as first:
        assert len(first) == 3 and len({one.data_ptr() for one in first}) == 3
        with link.scratch(torch.empty(100), 3) as second:
            assert not {one.data_ptr() for one in first} & {one.data_ptr() for one in second}
    with link.scratch(torch.empty(50, dtype=torch.int16), 2) as third:
        assert third[0].data_ptr() == first[0].data_ptr()
        assert third[0].dtype is torch.int16 and third[0].shape == (50,)
    assert link.swapping([torch.ones(1)], [torch.ones(1)], Purpose(0)).works == []
