"""Decimal numbers to float32, correctly rounded, as compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.feed.multislot.powers import LARGEST, SMALLEST, powers_of_five
from refluid.kernels.compiled import compiled

INFINITE = np.uint32(0x7F800000)
_FIVES = powers_of_five()
_U0, _U1 = np.uint64(0), np.uint64(1)
_U32, _LOW32 = np.uint64(32), np.uint64(0xFFFFFFFF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_HALF = np.uint64(1 << 63)


@compiled
def _times(a: Any, b: Any) -> Any:
    """The upper and lower half of the product of two unsigned 64-bit numbers."""
    a_low, a_high = a & _LOW32, a >> _U32
    b_low, b_high = b & _LOW32, b >> _U32
    low = a_low * b_low
    middle = a_high * b_low + (low >> _U32)
    other = a_low * b_high + (middle & _LOW32)
    high = a_high * b_high + (middle >> _U32) + (other >> _U32)
    return high, (other << _U32) | (low & _LOW32)


@compiled
def float_bits(digits: Any, power: Any) -> Any:
    """The float32 nearest to digits * 10**power (Eisel and Lemire), as bits; digits > 0.

    The bits of infinity where it is too large.
    """
    if power < SMALLEST:
        return np.uint32(0)
    if power > LARGEST:
        return INFINITE
    zeros = 0
    w = digits
    while w & _HALF == _U0:
        w <<= _U1
        zeros += 1
    high, low = _times(w, _FIVES[power - SMALLEST, 0])
    if high & (_ALL >> np.uint64(26)) == _ALL >> np.uint64(26):
        carry, _ = _times(w, _FIVES[power - SMALLEST, 1])
        low += carry
        if carry > low:
            high += _U1
    upper = np.int64(high >> np.uint64(63))
    shift = np.uint64(upper + 38)
    mantissa = high >> shift
    exponent = ((217706 * power) >> 16) + 63 + upper - zeros + 127
    if exponent <= 0:
        if exponent <= -63:
            return np.uint32(0)
        mantissa >>= np.uint64(1 - exponent)
        mantissa = (mantissa + (mantissa & _U1)) >> _U1
        return np.uint32(mantissa)  # a carry into bit 23 makes it the smallest normal number
    half_way = low <= _U1 and -17 <= power <= 10 and mantissa & np.uint64(3) == _U1
    if half_way and mantissa << shift == high:
        mantissa &= ~_U1
    mantissa = (mantissa + (mantissa & _U1)) >> _U1
    if mantissa >= np.uint64(1 << 24):
        mantissa = np.uint64(1 << 23)
        exponent += 1
    if exponent >= 255:
        return INFINITE
    return np.uint32((np.uint64(exponent) << np.uint64(23)) | (mantissa & np.uint64(0x7FFFFF)))
