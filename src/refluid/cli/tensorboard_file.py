"""Scalars in TensorBoard's file format, which needs no TensorBoard to be written."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

_POLYNOMIAL = 0x82F63B78
_VERSION = b"brain.Event:2"
# Kinds of fields: numbers of varying length, 8 bytes, bytes with their length, 4 bytes.
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5


def _table() -> list[int]:
    found = []
    for number in range(256):
        for _ in range(8):
            number = (number >> 1) ^ (_POLYNOMIAL if number & 1 else 0)
        found.append(number)
    return found


_CRC = _table()


class ScalarFile:
    """A file of a folder, to which scalars are added as they come; each call is on disk at once."""

    def __init__(self, folder: Path, name: str = "refluid") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"events.out.tfevents.{int(time.time())}.{name}"
        self._file: BinaryIO = path.open("ab")
        self._add(_field(1, _DOUBLE, struct.pack("<d", time.time())) + _text(3, _VERSION))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """The values of now, by their tags."""
        summary = b"".join(
            _text(1, _text(1, tag.encode()) + _field(2, _FLOAT, struct.pack("<f", value)))
            for tag, value in values.items()
        )
        at = _field(1, _DOUBLE, struct.pack("<d", time.time()))
        self._add(at + _field(2, _VARINT, _varint(step)) + _text(5, summary))

    def close(self) -> None:
        """Ends the file."""
        self._file.close()

    def _add(self, event: bytes) -> None:
        length = struct.pack("<Q", len(event))
        self._file.write(length + _masked(length) + event + _masked(event))
        self._file.flush()


def _field(number: int, kind: int, value: bytes) -> bytes:
    return _varint(number << 3 | kind) + value


def _text(number: int, value: bytes) -> bytes:
    return _field(number, _BYTES, _varint(len(value)) + value)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _masked(data: bytes) -> bytes:
    """The checksum (CRC-32C) as TensorFlow's records have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
