"""Row numbers in ascending order, as compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.kernels.compiled import compiled

_DIGIT = 11
_ONE = np.uint64(1)
# What `in_order` needs besides a number for each row.
COUNTS = 1 << _DIGIT


def spare_room(count: int) -> Tensor:
    """What loops that put rows in order need to work with: int32 [count + COUNTS]."""
    return torch.empty(count + COUNTS, dtype=torch.int32)


@compiled
def in_order(index: Any, height: Any, order: Any, spare: Any) -> Any:
    """Fills the int32 `order` with positions of `index`, by ascending row, equal rows as they come.

    index: int64 row numbers; spare: int32, as many and COUNTS more, to work with. False, and
    nothing done, where one isn't in [0, height). A radix sort: its time grows with the number of
    rows only.
    """
    count = index.shape[0]
    for i in range(count):
        if index[i] < 0 or index[i] >= height:
            return False
    bits = 1
    while (height >> bits) > 0:
        bits += 1
    passes = (bits + _DIGIT - 1) // _DIGIT
    digit = (bits + passes - 1) // passes
    mask = (1 << digit) - 1
    other, starts = spare[:count], spare[count : count + mask + 1]
    source, target = (other, order) if passes & 1 else (order, other)
    for i in range(count):
        source[i] = i
    for number in range(passes):
        shift = number * digit
        starts[:] = 0
        for i in range(count):
            starts[np.uint64((index[i] >> shift) & mask)] += 1
        total = 0
        for value in range(mask + 1):
            here = starts[value]
            starts[value] = total
            total += here
        for i in range(count):
            position = source[i]
            own = np.uint64((index[np.uint64(position)] >> shift) & mask)
            target[np.uint64(starts[own])] = position
            starts[own] += 1
        source, target = target, source
    return True


@compiled
def merge(index: Any, height: Any, value: Any, rows: Any, merged: Any, spare: Any) -> Any:
    """Writes each row once, ascending, with the sum of its values; how many there are.

    value: [n, width]; `rows` and `merged` have room for n; spare: int32 [2 n + COUNTS]. -1 where a
    row isn't in [0, height).
    """
    count, width = value.shape
    order = spare[:count]
    if not in_order(index, height, order, spare[count:]):
        return -1
    found, last = np.uint64(0), -1
    for i in range(count):
        position = np.uint64(order[i])
        row = index[position]
        if row == last:
            for column in range(width):
                merged[found - _ONE, column] += value[position, column]
        else:
            rows[found] = last = row
            for column in range(width):
                merged[found, column] = value[position, column]
            found += _ONE
    return np.int64(found)
