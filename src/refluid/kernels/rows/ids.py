"""Ids of any size on plain tensors: where each has its row, which are equal, who owns which."""

from __future__ import annotations

from collections import deque
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

# int64 [n].
Ids = np.ndarray[Any, Any]
# Parts that ids are dealt in: which server has an id follows from its part (`deal`).
PARTS = 65536
_SMALLEST = 1024
# A map knows so many of its last calls, of so many ids: fewer are found as soon in the map.
_REMEMBERED, _FEW, _MANY = 4, 64, 2**18


@cache
def id_loops() -> ModuleType:
    """The compiled loops; imported late, for they load the compiler."""
    from refluid.kernels.rows import id_loops

    return id_loops


def are_equal(one: Ids, other: Ids) -> bool:
    """Whether two arrays of ids are the same; others mostly differ in their first ones already."""
    if len(one) != len(other) or (len(one) and one[0] != other[0]):
        return False
    return bool((one == other).all())


def map_size(count: int) -> int:
    """How many slots a map of so many ids has, so that few are where another one would be."""
    return 1 << max(4, (4 * count - 1).bit_length())


class IdMap:
    """A slot for each id, numbered from 0 in the order in which they came.

    Rows are mostly changed by the ids by which they were read a moment ago: the slots of the last
    few calls are known without the map. What it returns isn't to be written to.
    """

    def __init__(self) -> None:
        self.count = 0
        self._latest: deque[tuple[Ids, Tensor]] = deque(maxlen=_REMEMBERED)
        self._keys: Any = np.zeros(_SMALLEST, np.int64)
        self._slots: Any = np.full(_SMALLEST, -1, np.int32)

    def find(self, ids: Tensor) -> tuple[Tensor, int]:
        """The slot of each id, int64 [n], -1 where it has none; how many have none."""
        given = ids.numpy()
        if (known := self._known(given)) is not None:
            return known, 0
        out = np.empty(len(given), np.int64)
        missing = id_loops().find(self._keys, self._slots, given, out)
        return torch.from_numpy(out), int(missing)

    def add(self, ids: Tensor) -> Tensor:
        """The slot of each id, int64 [n]; those that have none get the next ones."""
        given = ids.numpy()
        if (known := self._known(given)) is not None:
            return known
        self._make_room(self.count + len(given))
        out = np.empty(len(given), np.int64)
        self.count = int(id_loops().add(self._keys, self._slots, given, self.count, out))
        slots = torch.from_numpy(out)
        if _FEW <= len(given) <= _MANY:
            self._latest.append((given.copy(), slots))
        return slots

    @property
    def nbytes(self) -> int:
        """What it takes of memory."""
        latest = sum(one.nbytes for pair in self._latest for one in pair)
        return int(self._keys.nbytes + self._slots.nbytes + latest)

    def _known(self, ids: Ids) -> Tensor | None:
        """The slots of these ids, if they were added lately in this order."""
        if _FEW <= len(ids) <= _MANY:
            for known, slots in self._latest:
                if are_equal(known, ids):
                    return slots
        return None

    def _make_room(self, count: int) -> None:
        """Makes the map large enough for that many; what is in there keeps its slot."""
        size = len(self._keys)
        if 2 * count <= size:
            return
        while 2 * count > size:
            size *= 2
        keys, slots = self._keys, self._slots
        taken = slots >= 0
        ordered = np.empty(self.count, np.int64)
        ordered[slots[taken]] = keys[taken]
        self._keys, self._slots = np.zeros(size, np.int64), np.full(size, -1, np.int32)
        again = np.empty(self.count, np.int64)
        id_loops().add(self._keys, self._slots, ordered, 0, again)


class RowPlaces:
    """Where each of some numbers of rows, int64 [n], is among them."""

    def __init__(self, index: Tensor) -> None:
        self._map, count = IdMap(), len(index)
        slots = self._map.add(index.cpu().contiguous())
        first = torch.full((self._map.count,), count)
        self._first = first.scatter_reduce_(0, slots, torch.arange(count), "amin")

    def find(self, ids: Tensor) -> Tensor:
        """The first place of each id, int64 [n], -1 where it is nowhere."""
        slots, missing = self._map.find(ids.cpu().contiguous())
        if not missing:
            return self._first[slots]
        found = torch.full_like(slots, -1)
        there = slots >= 0
        found[there] = self._first[slots[there]]
        return found


def unique_ids(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Each id once, int64 [m], in the order in which they come, and which of these each is, [n]."""
    count = len(ids)
    slots = np.full(map_size(count), -1, np.int32)
    found, inverse = torch.empty(count, dtype=torch.int64), torch.empty(count, dtype=torch.int64)
    number = id_loops().unique(slots, ids.numpy(), found.numpy(), inverse.numpy())
    return found[:number], inverse


def sum_rows(inverse: Tensor, value: Tensor, count: int) -> Tensor:
    """Rows `value` [n, width], float32 or float64, added up at `inverse`: [count, width]."""
    sums = value.new_zeros((count, value.shape[1]))
    id_loops().add_up(inverse.numpy(), value.contiguous().numpy(), sums.numpy())
    return sums


def merge_ids(ids: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Each id once, in the order in which they come, and the sums of its rows."""
    found, inverse = unique_ids(ids)
    return found, sum_rows(inverse, value, len(found))


def dealt(ids: Ids, owners: Tensor, servers: int) -> tuple[Ids, Ids, list[int]]:
    """A copy of the ids, int64 [n]; their positions server by server, as they come, int32 [n + 1];
    where each server's begin, and the last one's end. owners: as of `deal_ids`."""
    count, begins = len(ids), np.empty(servers + 1, np.int64)
    copy, order = np.empty(count, np.int64), np.empty(count + 1, np.int32)
    spare = np.empty(count, np.int16), np.empty_like(begins)
    id_loops().deal(ids, owners, copy, *spare, begins, order)
    return copy, order, begins.tolist()


def deal_ids(ids: Tensor, owners: Tensor, servers: int) -> list[Tensor]:
    """For each server the positions of the ids that it has, int64, as they come.

    owners: int16 [PARTS], the server of each part.
    """
    _, order, begins = dealt(ids.numpy(), owners, servers)
    whole = torch.from_numpy(order).long()
    return [whole[start:end] for start, end in pairwise(begins)]
