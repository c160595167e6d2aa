"""The ids of a step, each once, server by server: what is asked for, and what is sent back.

All of it are arrays: with tensors the calls would take longer than many a step's ids. What belongs
to one server is done while the others work: nothing waits until all have answered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.kernels.rows.ids import Ids, are_equal, id_loops

Rows = np.ndarray[Any, Any]


class DealtIds:
    """Ids, int64 [n], of which each server has some, found in one pass.

    unique: each id once, int64 [m]: those of server s from starts[s] to starts[s + 1]. inverse:
    which of these each of the given ids is, int64 [n]. owners: as of `deal_ids`.
    """

    def __init__(self, ids: Ids, owners: Tensor, servers: int) -> None:
        count = len(ids)
        slots = np.empty(1 << max(4, (4 * count - 1).bit_length()), np.int32)
        bounds = np.empty(servers + 1, np.int64), np.empty(servers + 1, np.int64)
        found, self.inverse = np.empty(count, np.int64), np.empty(count, np.int64)
        self._order, spare = np.empty(count + 1, np.int32), np.empty(count, np.int32)
        made = found, self.inverse, self._order, spare
        id_loops().deal_unique(ids, owners, slots, *bounds, *made)
        self.starts, self._begins = (one.tolist() for one in bounds)
        self.unique = found[: self.starts[-1]]
        self._given, self._any = ids.copy(), int(owners[0])

    def __len__(self) -> int:
        return len(self._given)

    def is_of(self, ids: Ids) -> bool:
        """Whether these are the same ids in the same order."""
        return are_equal(self._given, ids)

    def part(self, server: int, values: Rows) -> Rows:
        """Of values for `unique`, those of one server: the same memory."""
        return values[self.starts[server] : self.starts[server + 1]]

    def count(self, server: int) -> int:
        """How many different ids a server has."""
        return self.starts[server + 1] - self.starts[server]

    def servers(self) -> list[int]:
        """Those that have any of the ids; one of them where there are none."""
        pairs = zip(self.starts, self.starts[1:], strict=False)
        return [server for server, (start, end) in enumerate(pairs) if end > start] or [self._any]

    def spread(self, server: int, rows: Rows, out: Rows) -> None:
        """Copies rows of one server's ids, as it has them, to those of the given, [n, width]."""
        id_loops().spread_part(*self._of(server), rows, out)

    def add_up(self, server: int, value: Rows, sums: Rows) -> None:
        """Rows for each of the given ids, [n, width], added up for those that one server has."""
        id_loops().add_up_part(*self._of(server), value, sums)

    def _of(self, server: int) -> tuple[Rows, Rows, int]:
        begin, end = self._begins[server], self._begins[server + 1]
        return self._order[begin:end], self.inverse, self.starts[server]


class PartialSums:
    """Rows for each of the dealt ids, [n, width], to be added up for a server where it reads them.

    It has the type and shape of what it fills: a row for each different id of the server.
    """

    def __init__(self, dealt: DealtIds, server: int, value: Rows) -> None:
        self._dealt, self._server, self._value = dealt, server, value
        self.dtype, self.shape = value.dtype, (dealt.count(server), value.shape[1])

    def fill(self, out: Rows) -> None:
        """Writes the sums, [count, width], whatever was there."""
        self._dealt.add_up(self._server, self._value, out)


class KnownRows:
    """Rows of a step's ids, as servers give them one after the other: `width` numbers each."""

    def __init__(self, dealt: DealtIds, width: int, dtype: str) -> None:
        self.dealt = dealt
        self._rows = np.empty((len(dealt), width), dtype)

    def put(self, server: int, rows: Rows) -> bool:
        """Copies what a server gave of its ids; False, and nothing done, where it isn't that."""
        expected = self.dealt.count(server), self._rows.shape[1]
        if rows.shape != expected or rows.dtype != self._rows.dtype:
            return False
        self.dealt.spread(server, rows, self._rows)
        return True

    def is_of(self, ids: Tensor) -> bool:
        """Whether these are rows of the same ids in the same order."""
        return self.dealt.is_of(ids.contiguous().numpy().reshape(-1))

    def of(self, ids: Tensor) -> Tensor:
        """The row of each of the dealt ids in the shape of `ids`: (*ids.shape, width)."""
        return torch.from_numpy(self._rows).view(*ids.shape, self._rows.shape[1])
