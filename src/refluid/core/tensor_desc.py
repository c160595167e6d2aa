"""The header of a stored tensor: element type and sizes as protobuf's wire format.

Field 1 is the element type, field 2 repeats the sizes; written unpacked, read either way.
"""

from __future__ import annotations

from collections.abc import Iterable

from refluid.core.dtypes import VarType, as_dtype

_TYPE, _DIM, _PACKED_DIMS = 0x08, 0x10, 0x12


def encode_desc(dtype: VarType, dims: Iterable[int]) -> bytes:
    """The header of a tensor with this element type and these sizes."""
    header = bytes([_TYPE]) + _varint(dtype)
    return header + b"".join(bytes([_DIM]) + _varint(dim) for dim in dims)


def decode_desc(header: bytes) -> tuple[VarType, list[int]]:
    """Element type and sizes from a header; ValueError says what is wrong with it."""
    dtype: VarType | None = None
    dims: list[int] = []
    at = 0
    while at < len(header):
        tag, at = _read_varint(header, at)
        number, at = _read_varint(header, at)
        if tag == _TYPE:
            dtype = _element_type(number)
        elif tag == _DIM:
            dims.append(_signed(number))
        elif tag == _PACKED_DIMS and at + number <= len(header):
            end = at + number
            while at < end:
                dim, at = _read_varint(header[:end], at)
                dims.append(_signed(dim))
        else:
            raise ValueError(f"field tag {tag:#x} does not belong into a tensor's header")
    if dtype is None:
        raise ValueError("it has no element type")
    if any(dim < 0 for dim in dims):
        raise ValueError(f"its sizes are negative: {dims}")
    return dtype, dims


def _element_type(number: int) -> VarType:
    try:
        return as_dtype(number)
    except (TypeError, ValueError):
        raise ValueError(f"{number} is no element type") from None


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("it ends within a number")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a number has more than ten bytes")


def _signed(number: int) -> int:
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number
