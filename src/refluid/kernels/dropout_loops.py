"""The loops of `dropouts.py`: what is drawn is a function of a key and of an element's place."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.compiled import compiled
from refluid.kernels.teams import for_team, taken


@compiled
def mixed(a: Any, b: Any, by: Any) -> Any:
    """A round: a + b, and b turned to the left by that many bits, with the sum's bits."""
    total = np.uint32(a + b)
    return total, np.uint32(np.uint32(b << by) | (b >> (32 - by))) ^ total


@compiled
def drawn(key0: Any, key1: Any, place: Any) -> Any:
    """Two words of 32 random bits: Threefry-2x32 of 13 rounds, as Random123 has it.

    All are uint32, which numba's sums and shifts aren't; place: uint64.
    """
    key2 = key0 ^ key1 ^ np.uint32(0x1BD11BDA)
    a, b = np.uint32(np.uint32(place) + key0), np.uint32(np.uint32(place >> 32) + key1)
    a, b = mixed(a, b, 13)
    a, b = mixed(a, b, 15)
    a, b = mixed(a, b, 26)
    a, b = mixed(a, b, 6)
    a, b = np.uint32(a + key1), np.uint32(b + key2 + 1)
    a, b = mixed(a, b, 17)
    a, b = mixed(a, b, 29)
    a, b = mixed(a, b, 16)
    a, b = mixed(a, b, 24)
    a, b = np.uint32(a + key2), np.uint32(b + key0 + 2)
    a, b = mixed(a, b, 13)
    a, b = mixed(a, b, 15)
    a, b = mixed(a, b, 26)
    a, b = mixed(a, b, 6)
    a, b = np.uint32(a + key0), np.uint32(b + key1 + 3)
    return mixed(a, b, 17)


@for_team
def drop(
    counter: Any, x: Any, key: Any, least: Any, divisor: Any, out: Any, mask: Any, part: Any
) -> None:
    """out = x / divisor where 32 random bits are `least` or more, else 0; mask tells where.

    A part's first half takes the first word of what is drawn, its second half the second one.
    """
    key0, key1 = np.uint32(key[0]), np.uint32(key[0] >> 32)
    bound, by, none = np.uint32(least), np.float32(divisor), np.float32(0)
    begin = taken(counter) * part
    while begin < len(x):
        end = min(begin + part, len(x))
        half = (end - begin + 1) // 2
        near, made, kept = x[begin : begin + half], out[begin : begin + half], mask[begin:]
        far, others = x[begin + half : end], out[begin + half : end]
        last = mask[begin + half : end]
        for i in range(end - begin - half):
            one, other = drawn(key0, key1, np.uint64(begin + i))
            made[i] = near[i] / by if one >= bound else none
            kept[i] = one >= bound
            others[i] = far[i] / by if other >= bound else none
            last[i] = other >= bound
        for i in range(end - begin - half, half):  # the middle one of an odd number
            one, other = drawn(key0, key1, np.uint64(begin + i))
            made[i] = near[i] / by if one >= bound else none
            kept[i] = one >= bound
        begin = taken(counter) * part


@for_team
def keep(counter: Any, x: Any, mask: Any, divisor: Any, out: Any, part: Any) -> None:
    """out = x / divisor where the mask isn't 0, else 0."""
    by, none = np.float32(divisor), np.float32(0)
    begin = taken(counter) * part
    while begin < len(x):
        end = min(begin + part, len(x))
        given, kept, made = x[begin:end], mask[begin:end], out[begin:end]
        for i in range(end - begin):
            made[i] = given[i] / by if kept[i] else none
        begin = taken(counter) * part
