"""What the arguments of a compiled loop are: what its machine code is made for."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
import torch


class Elements(NamedTuple):
    """A kind of argument: elements of that type, in so many dimensions; torch's or NumPy's.

    whole: whether they lie one after the other in memory that the processor reaches.
    """

    dtype: Any
    rank: int
    of_torch: bool
    whole: bool

    @property
    def name(self) -> str:
        """The type of the elements, as NumPy names it."""
        return str(self.dtype).rpartition(".")[2]


def kinds_of(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """For each argument `Elements`, the type of a number, or a tuple of kinds."""
    return tuple([_kind(one) for one in given])


def _kind(given: Any) -> Any:
    if isinstance(given, torch.Tensor):
        whole = given.is_contiguous() and given.is_cpu
        return Elements(given.dtype, given.dim(), True, whole)
    if isinstance(given, np.ndarray):
        return Elements(given.dtype, given.ndim, False, given.flags.c_contiguous)
    return kinds_of(given) if isinstance(given, tuple) else type(given)


def is_whole(kind: Any) -> bool:
    """Whether all elements of such arguments lie as machine code needs them."""
    if isinstance(kind, Elements):
        return kind.whole
    return all(map(is_whole, kind)) if isinstance(kind, tuple) else True


def address_of(array: Any) -> int:
    """Where an array of NumPy's begins, in a third of the time that its own `ctypes.data` takes."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError):  # it is read-only, or empty
        return int(array.ctypes.data)
