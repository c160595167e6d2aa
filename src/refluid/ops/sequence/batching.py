"""Rows of sequences <-> one batch of rows for each time step, the longest sequences first.

Sequences of 1, 3 and 2 rows (0 | 1 2 3 | 4 5) become steps of 3, 2 and 1 rows: (1 4 0), (2 5), (3).
A step is the first rows of the step before it, moved on by one: no step has a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import accumulate

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ops.required import require_rows

cut = torch.split_with_sizes  # cut(values, sizes): the rows of each step


class TimeMajor:
    """How rows of sequences are brought into steps. Made by `time_major`, never changed.

    sizes: rows of each step. order: the sequences, longest first. rows: for each place in the
    steps its row; owners: its sequence, counted in that order. before: for each place from the
    second step on, the place one step earlier. ends: the last place of each sequence with rows.
    idle: how many sequences have none. total: how many rows there are.
    """

    def __init__(
        self, starts: Sequence[int], lengths: Sequence[int], reverse: bool, device: torch.device
    ) -> None:
        begin = torch.tensor(starts, dtype=torch.long)
        length = torch.tensor(lengths, dtype=torch.long)
        order = torch.sort(length, descending=True, stable=True).indices
        begin, length = begin[order], length[order]
        longest = max(lengths, default=0)
        alive = torch.arange(longest).unsqueeze(1) < length
        step, place = alive.nonzero(as_tuple=True)
        offset = length[place] - 1 - step if reverse else step
        sizes = alive.sum(1)
        self.sizes: list[int] = sizes.tolist()
        self.order: list[int] = order.tolist()
        self.total: int = int(sizes.sum())
        first = self.sizes[0] if self.sizes else 0
        self.idle = len(lengths) - first
        back = torch.repeat_interleave(sizes[:-1], sizes[1:])
        self._cpu_rows = begin[place] + offset
        self._sequences = order.to(device)
        self.owners = place.to(device)
        self.ends = ((sizes.cumsum(0) - sizes)[length[:first] - 1] + torch.arange(first)).to(device)
        self.rows = self._cpu_rows.to(device)
        self.before = (torch.arange(first, self.total) - back).to(device)
        self.places = torch.argsort(self._cpu_rows).to(device)
        self._levels: Levels | None = None

    def to_steps(self, rows: Tensor) -> Tensor:
        """The rows in the order of the steps, (total, ...)."""
        return rows.index_select(0, self.rows)

    def to_rows(self, steps: Tensor, height: int | None = None) -> Tensor:
        """The inverse of `to_steps`: all rows, or `height` rows, zero where no sequence has one."""
        if height is None or height == self.total:
            return steps.index_select(0, self.places)
        out = steps.new_zeros((height, *steps.shape[1:]))
        return out.index_copy_(0, self.rows, steps)

    def sorted(self, states: Tensor) -> Tensor:
        """States, one row per sequence, in the order of the steps; EnforceNotMet for other rows."""
        require_rows("an initial state", states, "the batch of sequences", len(self.order))
        return states.index_select(0, self._sequences)

    def in_order(self, *states: Tensor | None) -> tuple[Tensor | None, ...]:
        """What loops over the steps take: sorted states, `rows`, and `starts`."""
        return (
            *(None if one is None else self.sorted(one) for one in states),
            self.rows,
            self.starts,
        )

    def unsorted(self, states: Tensor, count: int) -> Tensor:
        """The inverse of `sorted` where only the first states may be given; else zero."""
        out = states.new_zeros((count, *states.shape[1:]))
        return out.index_copy_(0, self._sequences[: states.shape[0]], states)

    def previous(self, steps: Tensor, initial: Tensor | None) -> Tensor:
        """For each place the value one step earlier; `initial` (sorted) or zero at first."""
        first = self.sizes[0] if self.sizes else 0
        shape = (first, *steps.shape[1:])
        start = steps.new_zeros(shape) if initial is None else initial[:first]
        return torch.cat((start, steps.index_select(0, self.before)))

    @cached_property
    def starts(self) -> Tensor:
        """The first place of each step, and last how many places there are: int64, on the CPU."""
        return torch.tensor([0, *accumulate(self.sizes)])

    @property
    def levels(self) -> Levels:
        """As Fluid notes it in the LoD of a batch: offsets of the steps, rows, sequences."""
        if self._levels is None:
            rows = Offsets(self._cpu_rows.tolist())
            self._levels = (Offsets.of_lengths(self.sizes), rows, Offsets(self.order))
        return self._levels


@lru_cache(maxsize=64)
def time_major(
    starts: tuple[int, ...], lengths: tuple[int, ...], reverse: bool, device: torch.device
) -> TimeMajor:
    """The steps of sequences that begin at those rows; reverse: their last rows come first."""
    return TimeMajor(starts, lengths, reverse, device)


def steps_of(lod: Levels, what: str, reverse: bool, device: torch.device) -> TimeMajor:
    """The steps of the sequences; EnforceNotMet where there is no LoD, or one of several levels."""
    if not lod:
        raise EnforceNotMet(
            f"{what} needs sequences: its input has no LoD. Feed a LoDTensor with "
            "recursive_sequence_lengths, or declare the data with lod_level=1"
        )
    if len(lod) > 1:
        raise EnforceNotMet(f"{what} takes sequences of one level, but its LoD has {len(lod)}")
    offsets = lod[0]
    return time_major(offsets.values[:-1], tuple(offsets.lengths), reverse, device)
