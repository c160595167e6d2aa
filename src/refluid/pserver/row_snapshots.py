"""`RowSnapshot`: the rows of a table as they were at a moment, while the table goes on changing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

_FIRST = 1024
_GROWTH = 1.5


class RowSnapshot:
    """Rows are copied before they are changed for the first time, unless they were read by then.

    Each is read once, in order (`chunk`). The table's lock is held around each call. Where the
    table gets other memory, as when it grows, its former memory stays as it was.
    """

    def __init__(self, ids: Tensor, kept: Mapping[str, Tensor], count: int) -> None:
        self.count = count
        self._ids, self._kept, self._read = ids, kept, 0
        # Which of the copies a row has, from 1; memory of zeros that nobody touched costs nothing.
        self._copy_of = torch.from_numpy(np.zeros(count, np.int32))
        self._copies = {
            name: value.new_empty((0, *value.shape[1:])) for name, value in kept.items()
        }
        self._copied = 0

    def save(self, kept: Mapping[str, Tensor], slots: Tensor) -> None:
        """Rows at these slots of `kept` are about to be changed."""
        if kept is not self._kept:
            return
        chosen = slots[(slots >= self._read) & (slots < self.count)]
        chosen = chosen[self._copy_of[chosen] == 0]
        if not len(chosen):
            return
        begin, end = self._copied, self._copied + len(chosen)
        for name, value in kept.items():
            if end > len(self._copies[name]):
                self._copies[name] = grown(self._copies[name], max(_FIRST, int(_GROWTH * end)))
            room = self._copies[name]
            torch.index_select(value, 0, chosen, out=room[begin:end])
        self._copy_of[chosen] = torch.arange(begin + 1, end + 1, dtype=torch.int32)
        self._copied = end

    def chunk(self, start: int, rows: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Ids and rows from the `start`-th on, at most so many, where the last call ended."""
        end = min(start + rows, self.count)
        copies = self._copy_of[start:end]
        changed = copies.nonzero().view(-1)
        found = {}
        for name, value in self._kept.items():
            found[name] = value[start:end].clone()
            if len(changed):
                found[name][changed] = self._copies[name][copies[changed].long() - 1]
        self._read = end
        return self._ids[start:end].clone(), found


def grown(value: Tensor, size: int) -> Tensor:
    """The same with more rows, whose numbers are any."""
    made = value.new_empty((size, *value.shape[1:]))
    made[: len(value)] = value
    return made
