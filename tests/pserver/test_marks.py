"""Marks of pushes that move with parts and slices, beside a mark for each part on its own."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from refluid.kernels.rows.ids import PARTS, deal_ids
from refluid.pserver.applying import Push
from refluid.pserver.marks import PushMarks, ServerShare, read_marks, told_marks

SLICES = ("a", "b", "c")
IDS = torch.arange(1000) * 104729


def some(draws: np.random.RandomState) -> ServerShare:
    edges = sorted(draws.choice(PARTS, 6, replace=False))
    parts = torch.zeros(PARTS, dtype=torch.bool)
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        parts[begin:end] = True
    return ServerShare(parts, frozenset(draws.choice(SLICES, draws.randint(3), replace=False)))


class EachMark:
    """One mark for each part and each slice."""

    def __init__(self) -> None:
        self.parts = torch.zeros(PARTS, dtype=torch.int64)
        self.slices = dict.fromkeys(SLICES, 0)

    def take(self, share: ServerShare, mark: int) -> None:
        self.parts[share.parts] = mark
        self.slices |= dict.fromkeys(share.slices, mark)


def wanted(own: EachMark, sequence: int) -> tuple[set[int], set[str]]:
    lacking = (own.parts < sequence).int()
    ids = IDS[deal_ids(IDS, lacking, 2)[1]]
    return set(ids.tolist()), {name for name, mark in own.slices.items() if mark < sequence}


@pytest.mark.parametrize("seed", range(6))
def test_each_part_takes_a_push_once(seed: int) -> None:
    draws = np.random.RandomState(seed)
    marks, own, elsewhere = PushMarks(), EachMark(), PushMarks()
    push = Push(dict.fromkeys(SLICES, torch.ones(1)), {"t": (IDS, torch.ones(len(IDS), 1))}, 3)
    sequence = 1
    for _ in range(8):
        base = marks.applied
        if draws.rand() < 0.6:
            share, mark = some(draws), int(sequence - draws.randint(2))
            marks.take([(share, mark)])
            own.take(share, mark)
        marks = read_marks(json.loads(json.dumps(told_marks(marks))))
        found = marks.wanting(push, sequence)
        ids, slices = wanted(own, sequence)
        has = found.sparse.get("t", (torch.empty(0),))[0]
        assert (set(has.tolist()), set(found.dense)) == (ids, slices)
        assert found.steps == (3 if base < sequence else 0)
        given = some(draws)
        elsewhere.take(marks.of(given))
        for part, mark in marks.of(given):
            assert (own.parts[part.parts] == mark).all()
            assert all(own.slices[name] == mark for name in part.slices)
        covered = sum(part.parts.int() for part, _ in marks.of(given))
        assert torch.equal(covered, given.parts.int())
        if draws.rand() < 0.5:
            assert not marks.reached(sequence) or not ids
            marks.settle(sequence)
            own.take(ServerShare(torch.ones(PARTS, dtype=torch.bool), frozenset(SLICES)), sequence)
            assert marks.reached(sequence)
            sequence += 1
