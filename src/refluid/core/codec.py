"""Fluid's tensor files, byte for byte (little endian).

LoDTensor: u32 0 | u64 levels | per level u64 bytes, u64 offsets | Tensor.
SelectedRows: u32 0 | u64 n | i64 rows | i64 height | Tensor.
Tensor: u32 0 | i32 n | n bytes of header (`tensor_desc`) | data in C order.
Whatever does not fit this exactly is refused with the place where it went wrong.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Sequence
from typing import BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt
import torch

from refluid.core.dtypes import VarType, as_dtype, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.core.lod import lod_error
from refluid.core.lod_tensor import LoDTensor
from refluid.core.selected_rows import SelectedRows
from refluid.core.tensor_desc import decode_desc, encode_desc

Buffer = bytes | bytearray | memoryview


def write_lod_tensor(
    file: BinaryIO, tensor: torch.Tensor, lod: Sequence[Sequence[int]] = ()
) -> None:
    """Writes a tensor and its offsets; the data goes from its own memory to the file."""
    file.write(struct.pack("<IQ", 0, len(lod)))
    for level in lod:
        file.write(struct.pack(f"<Q{len(level)}Q", 8 * len(level), *level))
    _write_tensor(file, tensor)


def write_selected_rows(file: BinaryIO, value: SelectedRows) -> None:
    """Writes rows, height and values of a SelectedRows."""
    rows = value.index.cpu().numpy().astype("<i8", copy=False)
    file.write(struct.pack("<IQ", 0, len(rows)))
    file.write(rows.tobytes())
    file.write(struct.pack("<q", value.height()))
    _write_tensor(file, value.value)


def encode_lod_tensor(tensor: torch.Tensor, lod: Sequence[Sequence[int]] = ()) -> bytes:
    """The bytes of a LoDTensor file."""
    out = io.BytesIO()
    write_lod_tensor(out, tensor, lod)
    return out.getvalue()


def encode_selected_rows(value: SelectedRows) -> bytes:
    """The bytes of a SelectedRows file."""
    out = io.BytesIO()
    write_selected_rows(out, value)
    return out.getvalue()


def decode_lod_tensor(
    buffer: Buffer, offset: int = 0, name: str = "the buffer"
) -> tuple[LoDTensor, int]:
    """The LoDTensor that starts at `offset`, and where it ends; `name` is used in errors.

    Raises EnforceNotMet for input that is truncated or corrupt. The result owns its memory.
    """
    cursor = _Cursor(buffer, offset, name)
    cursor.version("LoDTensor")
    lod = [cursor.level(number) for number in range(cursor.number("<Q", "the number of levels"))]
    tensor = _read_tensor(cursor)
    reason = lod_error(lod, tensor.shape[0] if tensor.dim() else None)
    if reason:
        cursor.refuse(f"the LoD is invalid: {reason}")
    return LoDTensor(tensor, lod), cursor.at


def decode_selected_rows(
    buffer: Buffer, offset: int = 0, name: str = "the buffer"
) -> tuple[SelectedRows, int]:
    """The SelectedRows that starts at `offset`, and where it ends; errors as above."""
    cursor = _Cursor(buffer, offset, name)
    cursor.version("SelectedRows")
    count = cursor.number("<Q", "the number of rows")
    rows = np.frombuffer(cursor.take(8 * count, "the row numbers"), "<i8").astype(np.int64)
    height = cursor.number("<q", "the height")
    tensor = _read_tensor(cursor)
    found = tensor.shape[0] if tensor.dim() else 0
    if found != count:
        cursor.refuse(f"there are {count} row numbers but {found} rows of values")
    return SelectedRows(torch.from_numpy(rows), height, tensor), cursor.at


class _Cursor:
    """A position in a buffer that never leaves it."""

    def __init__(self, buffer: Buffer, at: int, name: str) -> None:
        self.data = memoryview(buffer).cast("B")
        self.at = at
        self.name = name

    def take(self, size: int, what: str) -> memoryview:
        left = len(self.data) - self.at
        if not 0 <= size <= left:
            self.refuse(
                f"{what} should take {size} bytes but {max(left, 0)} are left: the file is "
                "truncated or damaged; restore it from its source or an earlier checkpoint"
            )
        part = self.data[self.at : self.at + size]
        self.at += size
        return part

    def number(self, layout: str, what: str) -> int:
        return int(struct.unpack(layout, self.take(struct.calcsize(layout), what))[0])

    def version(self, what: str) -> None:
        version = self.number("<I", f"the version of a {what}")
        if version:
            self.at -= 4
            self.refuse(f"expected version 0 of a {what} but found {version}")

    def level(self, number: int) -> list[int]:
        size = self.number("<Q", f"the size of LoD level {number}")
        if size % 8:
            self.refuse(f"LoD level {number} has {size} bytes, which is no multiple of 8")
        part = self.take(size, f"LoD level {number}")
        return list(struct.unpack(f"<{size // 8}Q", part))

    def refuse(self, reason: str) -> NoReturn:
        raise EnforceNotMet(f"{self.name}: cannot be read at byte {self.at}: {reason}")


def _write_tensor(file: BinaryIO, tensor: torch.Tensor) -> None:
    header = encode_desc(as_dtype(tensor.dtype), tensor.shape)
    file.write(struct.pack("<Ii", 0, len(header)) + header)
    file.write(_bytes_of(tensor.detach().cpu().contiguous()))


def _read_tensor(cursor: _Cursor) -> torch.Tensor:
    cursor.version("tensor")
    size = cursor.number("<i", "the size of the tensor's header")
    header = bytes(cursor.take(size, "the tensor's header"))
    try:
        kind, dims = decode_desc(header)
    except ValueError as error:
        cursor.at -= size
        cursor.refuse(f"the tensor's header is damaged: {error}")
    dtype = to_torch(kind)
    raw = cursor.take(math.prod(dims) * dtype.itemsize, f"the data of {dims} {dtype}")
    if kind == VarType.BOOL:
        return torch.from_numpy(np.frombuffer(raw, np.uint8) != 0).reshape(dims)
    tensor = torch.empty(dims, dtype=dtype)
    _bytes_of(tensor)[:] = raw
    return tensor


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous CPU tensor."""
    if not tensor.numel():
        return memoryview(bytearray())
    raw: npt.NDArray[np.uint8] = tensor.reshape(-1).view(torch.uint8).numpy()
    return raw.data
