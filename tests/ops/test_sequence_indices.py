"""Index tensors that all operators of a batch share, drawn in any order, are what rows say."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from refluid.core.offsets import Offsets
from refluid.ops.sequence.context import context
from refluid.ops.sequence.padded import pad_rows, unpad_rows
from refluid.ops.sequence.pool import sum_rows


def neighbours(
    rows: list[Tensor], lengths: list[int], shifts: list[int], edges: list[Tensor]
) -> list[list[Tensor]]:
    """Of each row, looked up one by one; edges: the rows outside, first those before."""
    found, begin, before = [], 0, max(-min(shifts), 0)
    for length in lengths:
        for place in range(length):
            each = []
            for at in (place + shift for shift in shifts):
                if 0 <= at < length:
                    each.append(rows[begin + at])
                elif edges:
                    each.append(edges[before + (at if at < 0 else at - length)])
                else:
                    each.append(torch.zeros(2))
            found.append(each)
        begin += length
    return found


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_uses(seed: int) -> None:
    draw = random.Random(seed)
    lengths = [draw.randint(0, 5) for _ in range(draw.randint(1, 5))]
    lengths[0] += 1
    sequences, rows = Offsets.of_lengths(lengths), torch.rand(sum(lengths), 2)
    for _ in range(12):
        what = draw.choice(["context", "edges", "padded", "summed"])
        if what == "padded":
            length = max(lengths) + draw.randint(0, 2)
            padded = pad_rows(rows, sequences, length, 0.5)
            parts = rows.split(lengths)
            wanted = [torch.cat((one, one.new_full((length - len(one), 2), 0.5))) for one in parts]
            assert torch.equal(padded, torch.stack(wanted))
            assert torch.equal(unpad_rows(padded, sequences), rows)
        elif what == "summed":
            sums = [one.sum(0) for one in rows.split(lengths)]
            torch.testing.assert_close(sum_rows(rows, sequences), torch.stack(sums))
        else:
            first, count = draw.randint(-3, 2), draw.randint(1, 4)
            shifts = [*range(first, first + count)]
            outside = max(-min(shifts), 0) + max(max(shifts), 0)
            edges = torch.rand(outside, 2) if what == "edges" and outside else None
            found = context(rows, sequences, shifts, edges)
            one_by_one = neighbours([*rows], lengths, shifts, [] if edges is None else [*edges])
            assert torch.equal(found, torch.stack([torch.stack(each) for each in one_by_one]))
