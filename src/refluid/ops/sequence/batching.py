"""Rows of sequences <-> one batch of rows for each time step, the longest sequences first.

Sequences of 1, 3 and 2 rows (0 | 1 2 3 | 4 5) become steps of 3, 2 and 1 rows: (1 4 0), (2 5), (3).
A step is the first rows of the step before it, moved on by one: no step has a gap.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ops.required import require_rows

Numbers = npt.NDArray[np.int64]
cut = torch.split_with_sizes  # cut(values, sizes): the rows of each step


class TimeMajor:
    """How rows of sequences are brought into steps. Made by `time_major`, never changed.

    sizes: rows of each step. order: the sequences, longest first. rows: for each place in the
    steps its row; owners: its sequence, counted in that order. before: for each place from the
    second step on, the place one step earlier. ends: the last place of each sequence with rows.
    places: for each row its place. idle: how many sequences have none. total: how many rows there
    are. The tensors are made when they are first asked for.
    """

    def __init__(self, starts: Numbers, lengths: Numbers, reverse: bool, device: torch.device):
        order = np.argsort(-lengths, kind="stable")
        begin, length = starts[order], lengths[order]
        alive = np.arange(length[0] if len(length) else 0)[:, None] < length
        step, place = alive.nonzero()
        sizes = alive.sum(1)
        self.sizes: list[int] = sizes.tolist()
        self.total = len(step)
        self._first = self.sizes[0] if self.sizes else 0
        self.idle = len(lengths) - self._first
        self._order, self._sizes, self._length, self._place = order, sizes, length, place
        self._rows = begin[place] + (length[place] - 1 - step if reverse else step)
        self._device = device
        self._levels: Levels | None = None

    def _tensor(self, values: Numbers) -> Tensor:
        return torch.from_numpy(values).to(self._device)

    @cached_property
    def order(self) -> list[int]:
        found: list[int] = self._order.tolist()
        return found

    @cached_property
    def _sequences(self) -> Tensor:
        return self._tensor(self._order)

    @cached_property
    def owners(self) -> Tensor:
        return self._tensor(self._place)

    @cached_property
    def rows(self) -> Tensor:
        return self._tensor(self._rows)

    @cached_property
    def ends(self) -> Tensor:
        begins = self._sizes.cumsum() - self._sizes
        return self._tensor(begins[self._length[: self._first] - 1] + np.arange(self._first))

    @cached_property
    def before(self) -> Tensor:
        back = np.repeat(self._sizes[:-1], self._sizes[1:])
        return self._tensor(np.arange(self._first, self.total) - back)

    @cached_property
    def places(self) -> Tensor:
        return self._tensor(np.argsort(self._rows))

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
        return torch.from_numpy(np.concatenate((np.zeros(1, np.int64), self._sizes.cumsum())))

    @property
    def levels(self) -> Levels:
        """As Fluid notes it in the LoD of a batch: offsets of the steps, rows, sequences."""
        if self._levels is None:
            steps = Offsets(self.starts.numpy())
            self._levels = steps, Offsets(self._rows), Offsets(self._order)
        return self._levels


def time_major(offsets: Offsets, reverse: bool, device: torch.device) -> TimeMajor:
    """The steps of sequences, made once a batch; reverse: their last rows come first."""
    return offsets.kept(_of_offsets, reverse, device)


def _of_offsets(offsets: Offsets, reverse: bool, device: torch.device) -> TimeMajor:
    return TimeMajor(offsets.array[:-1], offsets.gaps(), reverse, device)


def steps_of(lod: Levels, what: str, reverse: bool, device: torch.device) -> TimeMajor:
    """The steps of the sequences; EnforceNotMet where there is no LoD, or one of several levels."""
    if not lod:
        raise EnforceNotMet(
            f"{what} needs sequences: its input has no LoD. Feed a LoDTensor with "
            "recursive_sequence_lengths, or declare the data with lod_level=1"
        )
    if len(lod) > 1:
        raise EnforceNotMet(f"{what} takes sequences of one level, but its LoD has {len(lod)}")
    return time_major(lod[0], reverse, device)
