"""Powers of five to 128 bits, for exact conversion of decimal numbers to float32."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Below the first every number of up to 19 digits is 0 in float32, above the last it is infinite.
SMALLEST, LARGEST = -65, 38


def powers_of_five() -> npt.NDArray[np.uint64]:
    """Row `q - SMALLEST`: the upper and lower 64 bits of 5**q, its highest bit at the top.

    Negative powers are rounded up, positive ones cut off, as the algorithm of Eisel and Lemire
    ("Number parsing at a gigabyte per second", 2021) needs them.
    """
    table = [_normalised(power) for power in range(SMALLEST, LARGEST + 1)]
    return np.array([[one >> 64, one & (1 << 64) - 1] for one in table], np.uint64)


def _normalised(power: int) -> int:
    if power >= 0:
        five: int = 5**power
        shift = 128 - five.bit_length()
        return five << shift if shift >= 0 else five >> -shift
    five = 5**-power
    return (1 << 127 + five.bit_length()) // five + 1
