"""Arrays by their addresses, for compiled loops that work on a number of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from refluid.kernels.by_numba import Late
from refluid.kernels.compiled import compiled


def _pointing() -> Any:
    """For numba: an address as a pointer to elements of an array's type."""
    numba: Any = import_module("numba.core")
    extending: Any = import_module("numba.extending")

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.inttoptr(given[0], context.get_value_type(signature.return_type))

    def pointer(_typing: Any, address: Any, like: Any) -> Any:
        return numba.types.CPointer(like.dtype)(address, like), generate

    return extending.intrinsic(pointer)


def _viewing() -> Any:
    return import_module("numba").carray


_pointer: Any = Late(_pointing)
_view: Any = Late(_viewing)


@compiled
def array_at(address: Any, like: Any, shape: Any) -> Any:
    """The contiguous array that begins at an address, of that shape and the type of `like`."""
    return _view(_pointer(address, like), shape)
