"""The Mersenne twisters of C++, from which Fluid draws classes: a seed gives the same numbers.

`mt19937` makes words of 32 bits, `mt19937_64` of 64. Real numbers and integers are made of words
as the C++ library of Fluid's time did it.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_SIZE, _HALF = 312, 156
_LOW = np.uint64(2**31 - 1)
_TWIST = np.uint64(0xB5026F5AA96619E9)
_FACTOR = 6364136223846793005
_TEMPERING = (
    (29, False, 0x5555555555555555),
    (17, True, 0x71D67FFFEDA60000),
    (37, True, 0xFFF7EEE000000000),
    (43, False, 2**64 - 1),
)


class MersenneTwister(Protocol):
    """A source of random words of `bits` bits."""

    bits: int

    def words(self, count: int) -> Words:
        """The next `count` words."""


class Twister32:
    """`mt19937`."""

    bits = 32

    def __init__(self, seed: int) -> None:
        self._state = np.random.RandomState(seed % 2**32)

    def words(self, count: int) -> Words:
        drawn: Any = self._state.randint(0, 2**32, count, dtype=np.uint32)
        return np.asarray(drawn, dtype=np.uint64)


class Twister64:
    """`mt19937_64`."""

    bits = 64

    def __init__(self, seed: int) -> None:
        state = [seed % 2**64]
        for place in range(1, _SIZE):
            last = state[-1]
            state.append((_FACTOR * (last ^ (last >> 62)) + place) % 2**64)
        self._state = np.array(state, dtype=np.uint64)
        self._ready = np.empty(0, np.uint64)

    def words(self, count: int) -> Words:
        blocks = [self._ready]
        left = count - self._ready.size
        while left > 0:
            blocks.append(self._block())
            left -= _SIZE
        found = np.concatenate(blocks)
        self._ready = found[count:]
        return found[:count]

    def _block(self) -> Words:
        """The next 312 words: a half is made of the other half and of what follows each word."""
        state = self._state
        for first, other in ((0, _HALF), (_HALF, 0)):
            ahead = np.append(state[first + 1 : first + _HALF], state[(first + _HALF) % _SIZE])
            mixed = (state[first : first + _HALF] & ~_LOW) | (ahead & _LOW)
            twisted = (mixed >> np.uint64(1)) ^ np.where(mixed & np.uint64(1), _TWIST, np.uint64(0))
            state[first : first + _HALF] = state[other : other + _HALF] ^ twisted
        words = state.copy()
        for shift, left, mask in _TEMPERING:
            moved = words << np.uint64(shift) if left else words >> np.uint64(shift)
            words ^= moved & np.uint64(mask)
        return words


def reals(engine: MersenneTwister, count: int) -> Reals:
    """Numbers of [0, 1), each of 64 bits."""
    if engine.bits == 64:
        return _below_one(engine.words(count) / 2.0**64)
    return reals_of_pairs(engine.words(2 * count).reshape(count, 2))


def reals_of_pairs(pairs: Words) -> Reals:
    """Numbers of [0, 1), each of two words of 32 bits, the lower one first."""
    return _below_one((pairs[:, 0] + pairs[:, 1] * 2.0**32) / 2.0**64)


def _below_one(values: Reals) -> Reals:
    return np.minimum(values, np.nextafter(1.0, 0.0))


def integers(engine: MersenneTwister, count: int, bound: int) -> Integers:
    """Integers of [0, bound), all equally likely."""
    width = (2**engine.bits - 1) // bound
    found = np.empty(0, np.uint64)
    while found.size < count:
        drawn = engine.words(count - found.size)
        found = np.concatenate((found, drawn[drawn < np.uint64(width * bound)]))
    return (found // np.uint64(width)).astype(np.int64)
