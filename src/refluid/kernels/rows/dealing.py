"""The ids of a step, each once, server by server: what is asked for, and what is sent back.

All of it are arrays: with tensors the calls would take longer than many a step's ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from refluid.kernels.rows.ids import Ids, are_equal, id_loops
from refluid.kernels.rows.lookup import look_up_arrays

Rows = np.ndarray[Any, Any]


class DealtIds:
    """Ids, int64 [n], of which each server has some, found in one pass.

    unique: each id once, int64 [m]: those of server s from starts[s] to starts[s + 1]. inverse:
    which of these each of the given ids is, int64 [n]. owners: as of `deal_ids`.
    """

    def __init__(self, ids: Ids, owners: Tensor, servers: int) -> None:
        count = len(ids)
        slots = np.empty(1 << max(4, (4 * count - 1).bit_length()), np.int32)
        starts = np.empty(servers + 1, np.int64)
        found, self.inverse = np.empty(count, np.int64), np.empty(count, np.int64)
        spare = np.empty(count, np.int32)
        id_loops().deal_unique(slots, ids, owners, starts, found, self.inverse, spare)
        self.starts: Sequence[int] = starts.tolist()
        self.unique = found[: self.starts[-1]]
        self._given, self._any = ids.copy(), int(owners[0])

    def is_of(self, ids: Ids) -> bool:
        """Whether these are the same ids in the same order."""
        return are_equal(self._given, ids)

    def part(self, server: int, values: Rows) -> Rows:
        """Of values for `unique`, those of one server: the same memory."""
        return values[self.starts[server] : self.starts[server + 1]]

    def servers(self) -> list[int]:
        """Those that have any of the ids; one of them where there are none."""
        pairs = zip(self.starts, self.starts[1:], strict=False)
        return [server for server, (start, end) in enumerate(pairs) if end > start] or [self._any]

    def spread(self, rows: Rows) -> Tensor:
        """A row for each of the given ids, [n, width], of those for `unique`, [m, width]."""
        return look_up_arrays(rows, self.inverse)

    def sums(self, value: Tensor) -> Rows:
        """Rows for each of the given ids, [n, width], added up for `unique`, [m, width]."""
        rows = value.contiguous().numpy()
        sums = np.zeros((len(self.unique), rows.shape[1]), rows.dtype)
        id_loops().add_up(self.inverse, rows, sums)
        return sums


class KnownRows:
    """Rows of a step's ids, as servers give them one after the other: `width` numbers each."""

    def __init__(self, dealt: DealtIds, width: int, dtype: str) -> None:
        self.dealt = dealt
        self._rows = np.empty((len(dealt.unique), width), dtype)

    def put(self, server: int, rows: Rows) -> bool:
        """Copies what a server gave of its ids; False, and nothing done, where it isn't that."""
        own = self.dealt.part(server, self._rows)
        if rows.shape != own.shape or rows.dtype != own.dtype:
            return False
        own[:] = rows
        return True

    def is_of(self, ids: Tensor) -> bool:
        """Whether these are rows of the same ids in the same order."""
        return self.dealt.is_of(ids.contiguous().numpy().reshape(-1))

    def of(self, ids: Tensor) -> Tensor:
        """A row for each of the dealt ids in the shape of `ids`: (*ids.shape, width)."""
        return self.dealt.spread(self._rows).view(*ids.shape, self._rows.shape[1])
