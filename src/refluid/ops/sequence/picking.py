"""Some of the sequences of a value, in a given order, with all the levels below them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from refluid.core.offsets import Levels, Offsets


def pick(levels: Levels, chosen: Tensor) -> tuple[Tensor, Levels]:
    """The rows of the chosen sequences of the first level, and the levels they then form.

    chosen: numbers of sequences, int64 on the CPU, in any order. Without levels a row counts as
    a sequence.
    """
    made: list[Offsets] = []
    for offsets in levels:
        lengths = offsets.length_tensor()[chosen]
        total = int(lengths.sum())
        starts = offsets.tensor()[:-1][chosen]
        before = lengths.cumsum(0) - lengths
        shift = torch.repeat_interleave(starts - before, lengths, output_size=total)
        made.append(Offsets.of_lengths(lengths.tolist()))
        chosen = torch.arange(total) + shift
    return chosen, tuple(made)


def first(levels: Levels, count: int) -> tuple[int, Levels]:
    """How many rows the first `count` sequences have, and the levels they form."""
    made: list[Offsets] = []
    for offsets in levels:
        made.append(Offsets(offsets.values[: count + 1]))
        count = made[-1].total
    return count, tuple(made)


def one_after_another(parts: Iterable[Levels]) -> Levels:
    """The levels of values whose rows are put one below the other."""
    found = [part for part in parts if part]
    if not found:
        return ()
    return tuple(
        Offsets.of_lengths(length for part in found for length in part[depth].lengths)
        for depth in range(len(found[0]))
    )


def inverse(order: Sequence[int]) -> Tensor:
    """Where each number is in `order`, int64."""
    return torch.argsort(torch.tensor(order, dtype=torch.int64))
