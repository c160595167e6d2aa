"""NumPy arrays whose memory torch can use as it is, and the words for those that are no tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_NAMES = "bool, int8, uint8, int16, int32, int64, float16, float32, float64, complex64, complex128"
_ELEMENTS = frozenset(map(np.dtype, _NAMES.split(", ")))
_ADVICE = {
    "u": "Of unsigned integers tensors have uint8 alone: convert it, such as by astype('int64')",
    "U": "Text has to become numbers first, such as places in a vocabulary",
    "S": "Text has to become numbers first, such as places in a vocabulary",
    "c": "Of complex numbers tensors have complex64 and complex128: convert it with astype",
}
_OTHERS = f"Tensors hold {_NAMES}: convert it with astype"


# Whether an array of float32 is made wider by a number of float64, as since NumPy 2.
NUMBERS_ARE_STRONG = bool((np.ones(1, "float32") * np.float64(1)).dtype == np.float64)


class NoTensorElements(TypeError, ValueError):
    """What was given can't become a tensor: no array, or of other elements than tensors have."""


def is_plain(array: npt.NDArray[Any]) -> bool:
    """Whether torch takes the array: writable, contiguous, in native byte order.

    NumPy calls an array contiguous whatever the stride of a dimension of one element is, also
    that of `x[::-1]` for a single row; torch refuses negative ones and parts of elements.
    """
    flags, size = array.flags, max(array.itemsize, 1)
    if not (flags.writeable and flags.c_contiguous and array.dtype.isnative):
        return False
    return all(stride >= 0 and stride % size == 0 for stride in array.strides)


def plain(array: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    """The array, or a copy that torch takes; never of another element type.

    NoTensorElements, which names `what`, where tensors don't have its element type.
    """
    kind = array.dtype
    if kind not in _ELEMENTS and kind.newbyteorder("=") not in _ELEMENTS:
        raise NoTensorElements(f"{what}: {_problem(array)}")
    if is_plain(array):
        return array
    made = np.empty(array.shape, array.dtype.newbyteorder("="))
    made[...] = array
    return made


def as_array(value: Any, what: str) -> npt.NDArray[Any]:
    """A number, or a list of them, as an array. NoTensorElements where NumPy makes none of it."""
    if value is None or isinstance(value, str | bytes | dict | set):
        raise NoTensorElements(f"{what}: give an array, not {type(value).__name__}")
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise NoTensorElements(f"{what}: no array can be made of it: {error}") from None


def _problem(array: npt.NDArray[Any]) -> str:
    kind = array.dtype.kind
    if kind != "O":
        return f"an array of {array.dtype} is no tensor. {_ADVICE.get(kind, _OTHERS)}"
    kinds = sorted({type(one).__name__ for one in array.flat})
    return (
        f"an array of Python objects ({', '.join(kinds[:4])}) is no tensor. Missing values need a "
        "number, and lists of unequal length fluid.create_lod_tensor"
    )
