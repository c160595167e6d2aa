"""An unpickler that executes nothing.

A pickle may name any function to be called. Here each of the few names that arrays need leads to
an inert stand-in, and every other name is refused; arrays are then made from plain bytes.
"""

from __future__ import annotations

import math
import pickle
import pickletools
import re
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

_ORDERS: dict[str, Literal["<", ">", "|", "="]] = {"<": "<", ">": ">", "|": "|", "=": "="}


class _Dtype:
    """Stands for a dtype: the type's code and, from its state, the byte order."""

    __slots__ = ("code", "order")

    def __init__(self, code: object) -> None:
        if not isinstance(code, str) or not re.fullmatch(r"[biufc]\d{1,2}", code):
            raise pickle.UnpicklingError(f"arrays of type {code!r} are not accepted")
        self.code = code
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] not in _ORDERS:
            raise pickle.UnpicklingError(f"{state[1]!r} is no byte order")
        self.order = state[1]

    def build(self) -> np.dtype[Any]:
        return np.dtype(self.code).newbyteorder(_ORDERS[self.order])


class _PickledArray:
    """Stands for an array: what its state says, checked when the array is made."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def build(self) -> npt.NDArray[Any]:
        _, shape, kind, fortran, data = self.state
        if not isinstance(kind, _Dtype) or not isinstance(data, bytes | str):
            raise pickle.UnpicklingError("an array's state is damaged")
        raw = data.encode("latin1") if isinstance(data, str) else data
        dtype = kind.build()
        if any(size < 0 for size in shape) or math.prod(shape) * dtype.itemsize != len(raw):
            raise pickle.UnpicklingError(
                f"an array of shape {shape} and type {dtype} cannot have {len(raw)} bytes"
            )
        array = np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran else "C")
        return array.astype(np.dtype(kind.code), order="C")


class _Sealed:
    """A function that a pickle may call but neither change nor look into."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("it changes a function")


def _not_callable(*_: object) -> Any:
    raise pickle.UnpicklingError("it makes arrays in an unknown way")


def _latin1(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError(f"text in encoding {encoding!r} is not accepted")
    return text.encode("latin1")


def _scalar(kind: _Dtype, data: bytes | str) -> _PickledArray:
    array = _PickledArray()
    array.state = (1, (), kind, False, data)
    return array


_ALLOWED: dict[tuple[str, str], _Sealed] = {
    ("numpy", "ndarray"): _Sealed(_not_callable),
    ("numpy", "dtype"): _Sealed(lambda code, *_: _Dtype(code)),
    ("_codecs", "encode"): _Sealed(_latin1),
    ("collections", "OrderedDict"): _Sealed(dict),
    ("__builtin__", "bytes"): _Sealed(lambda: b""),
    ("builtins", "bytes"): _Sealed(lambda: b""),
    ("builtins", "tuple"): _Sealed(tuple),
}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    _ALLOWED[_module, "_reconstruct"] = _Sealed(lambda *_: _PickledArray())
    _ALLOWED[_module, "scalar"] = _Sealed(_scalar)

_PLAIN = (str, bytes, int, float, complex, bool, type(None))


class ArrayUnpickler(pickle.Unpickler):
    """Loads what `plain_value` turns into plain values; UnpicklingError for any other name."""

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name that arrays need."""
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


_NUMBERED = ("PUT", "BINPUT", "LONG_BINPUT")


def check_numbers(data: bytes) -> None:
    """UnpicklingError for a place in the memo beyond any that such a file can fill.

    The memo is made as long as the highest place, so a damaged one would take all memory.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what stands in damaged texts
        for opcode, place, _ in pickletools.genops(data):
            if opcode.name in _NUMBERED and not 0 <= int(place or 0) <= len(data):
                raise pickle.UnpicklingError(f"it numbers a value {place} in {len(data)} bytes")


def plain_value(value: Any) -> Any:
    """`value` with arrays made from their stand-ins; UnpicklingError for anything unexpected."""
    if isinstance(value, _PickledArray):
        return value.build()
    if type(value) is dict:
        return {plain_value(key): plain_value(entry) for key, entry in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(plain_value(entry) for entry in value)
    if type(value) in _PLAIN:
        return value
    raise pickle.UnpicklingError(f"it holds a {type(value).__name__} that is no plain value")
