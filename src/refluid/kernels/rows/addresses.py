"""Arrays by their addresses, for compiled loops that work on a number of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from refluid.kernels.by_numba import Late, intrinsic
from refluid.kernels.compiled import compiled


@intrinsic
def _pointer(_ir: Any, numba: Any) -> Any:
    """An address as a pointer to elements of an array's type."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.inttoptr(given[0], context.get_value_type(signature.return_type))

    def typed(_typing: Any, address: Any, like: Any) -> Any:
        return numba.types.CPointer(like.dtype)(address, like), generate

    return typed


_view: Any = Late(lambda: import_module("numba").carray)


@compiled
def array_at(address: Any, like: Any, shape: Any) -> Any:
    """The contiguous array that begins at an address, of that shape and the type of `like`."""
    return _view(_pointer(address, like), shape)
