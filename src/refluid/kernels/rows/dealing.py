"""The ids of a step, each once, server by server: what is asked for, and what is sent back.

All of it are arrays: with tensors the calls would take longer than many a step's ids. What belongs
to one server is done while the others work: nothing waits until all have answered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.kernels.rows.ids import Ids, are_equal, dealt, id_loops, map_size

Rows = np.ndarray[Any, Any]


class DealtIds:
    """Ids, int64 [n], of which each server has some. owners: as of `deal_ids`.

    Those that are equal are found server by server, when a server's are asked for: what the first
    one has can leave before the others' are looked at.
    """

    def __init__(self, ids: Ids, owners: Tensor, servers: int) -> None:
        self._given, self._order, self._begins = dealt(ids, owners, servers)
        self._any = int(owners[0])
        # Which of its server's different ids each of the given ones is.
        self._inverse = np.empty(len(ids), np.int32)
        self._different: list[Ids | None] = [None] * servers

    def __len__(self) -> int:
        return len(self._given)

    def is_of(self, ids: Ids) -> bool:
        """Whether these are the same ids in the same order."""
        return are_equal(self._given, ids)

    def ids(self, server: int) -> Ids:
        """Each id that a server has, once, int64 [m], in the order in which they come."""
        found = self._different[server]
        if found is None:  # several threads may do so, and write the same
            order = self._places(server)
            found, slots = np.empty(len(order), np.int64), np.empty(map_size(len(order)), np.int32)
            count = id_loops().unique_part(self._given, order, slots, found, self._inverse)
            found = self._different[server] = found[:count]
        return found

    def servers(self) -> list[int]:
        """Those that have any of the ids; one of them where there are none."""
        pairs = zip(self._begins, self._begins[1:], strict=False)
        return [server for server, (start, end) in enumerate(pairs) if end > start] or [self._any]

    def spread(self, server: int, rows: Rows, out: Rows) -> None:
        """Copies rows of one server's ids, as it has them, to those of the given, [n, width]."""
        id_loops().spread_part(*self._of(server), rows, out)

    def add_up(self, server: int, value: Rows, sums: Rows) -> None:
        """Rows for each of the given ids, [n, width], added up for those that one server has."""
        id_loops().add_up_part(*self._of(server), value, sums)

    def _of(self, server: int) -> tuple[Rows, Rows]:
        self.ids(server)  # finds which each is
        return self._places(server), self._inverse

    def _places(self, server: int) -> Rows:
        return self._order[self._begins[server] : self._begins[server + 1]]


class AskedIds:
    """What a server has of the dealt ids, each once, for a message: found as it is sent."""

    dtype = np.dtype(np.int64)

    def __init__(self, dealt: DealtIds, server: int) -> None:
        self._dealt, self._server = dealt, server

    @property
    def shape(self) -> tuple[int]:
        return (len(self._dealt.ids(self._server)),)

    def fill(self, out: Ids) -> None:
        """Writes them, whatever was there."""
        out[:] = self._dealt.ids(self._server)


class PartialSums:
    """Rows for each of the dealt ids, [n, width], to be added up for a server where it reads them.

    It has the type and shape of what it fills: a row for each different id of the server.
    """

    def __init__(self, dealt: DealtIds, server: int, value: Rows) -> None:
        self._dealt, self._server, self._value = dealt, server, value
        self.dtype, self.shape = value.dtype, (len(dealt.ids(server)), value.shape[1])

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
        expected = len(self.dealt.ids(server)), self._rows.shape[1]
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
