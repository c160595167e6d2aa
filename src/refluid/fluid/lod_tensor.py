"""`create_lod_tensor` and `create_random_int_lodtensor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid.core.arrays import as_array
from refluid.core.errors import EnforceNotMet
from refluid.core.places import Place
from refluid.core.texts import shortened
from refluid.core.values import Lod, LoDTensor

__all__ = ["create_lod_tensor", "create_random_int_lodtensor"]


def create_lod_tensor(
    data: LoDTensor | npt.NDArray[Any] | list[Any],
    recursive_seq_lens: Sequence[Sequence[int]],
    place: Place,
) -> LoDTensor:
    """A new LoDTensor at `place` with a copy of `data` and the given sequence lengths.

    `data` has one row per element of the innermost sequences; or it is a list nested as
    `recursive_seq_lens` says, whose elements (numbers become rows of one: shape [n, 1]) are
    laid in a row.

        create_lod_tensor(numpy.zeros([5, 30], "float32"), [[2, 3]], CPUPlace())
        create_lod_tensor([[1, 2], [3, 4, 5]], [[2, 3]], CPUPlace())

    Raises TypeError for other `data`, AssertionError if the lengths do not fit it.
    """
    if not isinstance(data, LoDTensor | np.ndarray | list):
        raise TypeError("data should be either a LoDTensor, a Numpy array or a list")
    rows = _flatten(data, recursive_seq_lens) if isinstance(data, list) else np.asarray(data)
    result = LoDTensor()
    result.set(rows, place)
    try:
        result.set_recursive_sequence_lengths(recursive_seq_lens)
    except EnforceNotMet as error:
        raise AssertionError(f"the provided lod info is invalid: {error}") from error
    return result


def create_random_int_lodtensor(
    recursive_seq_lens: Sequence[Sequence[int]],
    base_shape: Sequence[int],
    place: Place,
    low: int,
    high: int,
) -> LoDTensor:
    """A LoDTensor of random int64 from `low` to `high`, both included.

    Its shape is the sum of the innermost lengths, then `base_shape`; numbers come from NumPy's
    global generator. Raises AssertionError unless `base_shape` is a list.
    """
    if not isinstance(base_shape, list):
        raise AssertionError("base_shape should be a list")
    shape = [sum(recursive_seq_lens[-1]), *base_shape]
    data = np.random.randint(low, high + 1, size=shape, dtype=np.int64)
    return create_lod_tensor(data, recursive_seq_lens, place)


def _flatten(data: list[Any], expected: Sequence[Sequence[int]]) -> npt.NDArray[Any]:
    lengths: Lod = []
    for _ in expected:
        lengths.append([len(part) for part in data])
        data = [item for part in data for item in part]
    if lengths != [list(level) for level in expected]:
        raise AssertionError(
            f"data and recursive_seq_lens do not match: the list has {shortened(str(lengths))}, "
            f"recursive_seq_lens says {shortened(str([list(level) for level in expected]))}"
        )
    rows = as_array(data, "create_lod_tensor")
    if rows.dtype == np.float64:
        rows = rows.astype(np.float32)
    return rows.reshape(-1, 1) if rows.ndim == 1 else rows
