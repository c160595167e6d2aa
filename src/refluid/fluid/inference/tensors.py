"""`PaddleTensor`, `PaddleBuf` and `PaddleDType`: what a predictor is given and gives back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid.core.errors import EnforceNotMet

Array = npt.NDArray[Any]


class PaddleDType(IntEnum):
    """The element types that predictors take."""

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2

    def __repr__(self) -> str:
        return f"PaddleDType.{self.name}"

    __str__ = __repr__


_NUMPY: dict[PaddleDType, np.dtype[Any]] = {
    PaddleDType.FLOAT32: np.dtype(np.float32),
    PaddleDType.INT64: np.dtype(np.int64),
    PaddleDType.INT32: np.dtype(np.int32),
}
_KINDS: dict[np.dtype[Any], PaddleDType] = {dtype: kind for kind, dtype in _NUMPY.items()}


def paddle_dtype(dtype: np.dtype[Any]) -> PaddleDType:
    """The `PaddleDType` of NumPy's type; EnforceNotMet where there is none."""
    if dtype not in _KINDS:
        raise EnforceNotMet(
            f"predictors know float32, int64 and int32, not {dtype}; convert it by `astype`"
        )
    return _KINDS[dtype]


def paddle_dtype_size(dtype: PaddleDType) -> int:
    """Bytes of an element."""
    return _NUMPY[dtype].itemsize


class PaddleBuf:
    """Bytes, read as numbers of a type that the reader names.

    `PaddleBuf(16)` has 16 bytes, `PaddleBuf([1.0, 2.0])` two float32, `PaddleBuf(array)` a copy of
    the array's. A list of whole numbers is float32 as in Fluid 1.8, but who reads it as integers
    gets them: in Fluid 1.5 it was int64.
    """

    _whole: Array | None = None

    def __init__(self, data: int | Sequence[float] | Array) -> None:
        if isinstance(data, int):
            self._bytes = np.zeros(data, np.uint8)
        else:
            self.reset(data)

    @classmethod
    def _sharing(cls, array: Array) -> PaddleBuf:
        """A buffer that is the array's own memory."""
        buffer = cls.__new__(cls)
        buffer._bytes = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return buffer

    def reset(self, data: Sequence[float] | Array) -> None:
        """Takes other numbers: float32 of a list, an array's as they are."""
        listed = None if isinstance(data, np.ndarray) else np.asarray(data)
        self._whole = listed if listed is not None and listed.dtype.kind == "i" else None
        array = data if isinstance(data, np.ndarray) else np.asarray(data, np.float32)
        paddle_dtype(array.dtype)
        self._bytes = np.array(array, order="C").reshape(-1).view(np.uint8)

    def resize(self, length: int) -> None:
        """Has so many bytes from now on; what was there is kept only if it need not grow."""
        self._whole = None
        self._bytes = self._bytes[:length] if length <= self.length() else np.zeros(length, "u1")

    def empty(self) -> bool:
        """Whether there are no bytes."""
        return not self.length()

    def length(self) -> int:
        """The number of bytes."""
        return int(self._bytes.size)

    def float_data(self) -> list[float]:
        """The bytes as float32."""
        return list(self._as(np.dtype(np.float32)).tolist())

    def int64_data(self) -> list[int]:
        """The bytes as int64."""
        return list(self._as(np.dtype(np.int64)).tolist())

    def int32_data(self) -> list[int]:
        """The bytes as int32."""
        return list(self._as(np.dtype(np.int32)).tolist())

    def tolist(self, dtype: str) -> list[Any]:
        """The bytes as "float32", "int64" or "int32"; ValueError for another name."""
        if dtype not in ("float32", "int64", "int32"):
            raise ValueError(f"PaddleBuf.tolist: float32, int64 or int32, not {dtype!r}")
        return list(self._as(np.dtype(dtype)).tolist())

    def _as(self, dtype: np.dtype[Any]) -> Array:
        if self._whole is not None and dtype.kind == "i":
            return self._whole.astype(dtype)
        whole = self.length() // dtype.itemsize * dtype.itemsize
        return self._bytes[:whole].view(dtype)


class PaddleTensor:
    """An array with a name and sequence offsets: an input or output of `PaddlePredictor.run`.

    Its data, element type and shape can be set one by one, in any order; they have to fit when the
    predictor runs. Data that was given no shape has one dimension.

    copy: False shares the array's memory, which must then stay as it is while the predictor runs.
    """

    _sizes: tuple[int, ...] | None

    def __init__(
        self,
        data: Array | None = None,
        name: str = "",
        lod: Iterable[Iterable[int]] = (),
        copy: bool = True,
    ) -> None:
        array = np.zeros(0, np.float32) if data is None else np.asarray(data)
        paddle_dtype(array.dtype)
        self._take(array, name, lod, copy=copy)
        if data is None:
            self._sizes = None

    @classmethod
    def _result(cls, array: Array, name: str, lod: Iterable[Iterable[int]]) -> PaddleTensor:
        """What a predictor computed, of any element type."""
        tensor = cls.__new__(cls)
        tensor._take(array, name, lod, copy=False)
        return tensor

    def _take(self, array: Array, name: str, lod: Any, *, copy: bool) -> None:
        self._buffer: PaddleBuf | None = None
        self._array = array.copy() if copy else array
        self._sizes = array.shape
        self._dtype = array.dtype
        self.name = name
        self.lod = [[int(offset) for offset in level] for level in lod]

    def as_ndarray(self) -> Array:
        """The array; EnforceNotMet where data, element type and shape don't fit."""
        array = self._array if self._buffer is None else self._buffer._as(self._dtype)
        if self._sizes is None or array.shape == self._sizes:
            return array
        if array.size != int(np.prod(self._sizes)):
            raise EnforceNotMet(
                f"PaddleTensor {self.name!r} holds {array.size} numbers of {self._dtype}, which "
                f"have no shape {list(self._sizes)}; set data, dtype and shape that fit"
            )
        return array.reshape(self._sizes)

    @property
    def data(self) -> PaddleBuf:
        """The numbers, without their shape; a `PaddleBuf` that is put here is read by `dtype`."""
        if self._buffer is None:  # users may change it
            self._array = np.ascontiguousarray(self._array)
            self._buffer = PaddleBuf._sharing(self._array)
        return self._buffer

    @data.setter
    def data(self, buffer: PaddleBuf) -> None:
        self._buffer = buffer

    @property
    def dtype(self) -> PaddleDType:
        """The element type; EnforceNotMet where it has no name among `PaddleDType`."""
        return paddle_dtype(self._dtype)

    @dtype.setter
    def dtype(self, dtype: PaddleDType) -> None:
        self.data  # noqa: B018 (its bytes are kept, to be read anew)
        self._dtype = _NUMPY[dtype]

    @property
    def shape(self) -> list[int]:
        """The sizes; [] where there is neither data nor shape."""
        if self._sizes is not None:
            return list(self._sizes)
        return list(self.as_ndarray().shape) if self.as_ndarray().size else []

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self._sizes = tuple(int(size) for size in shape)
