"""NumPy arrays whose memory torch can use as it is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def is_plain(array: npt.NDArray[np.generic]) -> bool:
    """Whether torch takes the array: writable, contiguous, in native byte order.

    NumPy calls an array contiguous whatever the stride of a dimension of one element is, also
    that of `x[::-1]` for a single row; torch refuses negative ones and parts of elements.
    """
    flags, size = array.flags, max(array.itemsize, 1)
    if not (flags.writeable and flags.c_contiguous and array.dtype.isnative):
        return False
    return all(stride >= 0 and stride % size == 0 for stride in array.strides)


def plain(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """The array, or a copy that torch takes; never of another element type."""
    if is_plain(array):
        return array
    made = np.empty(array.shape, array.dtype.newbyteorder("="))
    made[...] = array
    return made
