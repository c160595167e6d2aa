"""Messages as bytes: a fixed head, and named arrays.

    head       magic, kind, epoch, trainer, flags, session, sequence, job, how many arrays, bytes
    each array length of its name, type, rank, sizes, name
    data       the arrays' bytes one after the other, each beginning at a multiple of 8

Everything is checked against the length of the message before it is believed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from refluid.pserver.messages import (
    Array,
    Filling,
    Kind,
    MalformedMessage,
    NamedArray,
    TableMessage,
)

_HEAD = struct.Struct("<4sBBHiIQQQIIQ")
_ENTRY = struct.Struct("<HBB")
_SIZES = [struct.Struct(f"<{rank}q") for rank in range(9)]
MAGIC, _VERSION = b"RFPS", 2
HEAD_BYTES = _HEAD.size
_MOST_ARRAYS, _MOST_RANK, _MOST_NAME, _MOST_LONG = 2**17, 8, 1024, 2**40
_TYPES: tuple[Any, ...] = (np.float32, np.float64, np.int64, np.int32, np.uint8, np.float16)
_DTYPES = [np.dtype(one) for one in _TYPES]
_NUMBER = {one: number for number, one in enumerate(_DTYPES)}
_KINDS = {int(one): one for one in Kind}


class MessageBytes:
    """A message as it is sent: its head, and where in the bytes after it each array lies.

    TypeError for arrays of a type that messages don't carry.
    """

    def __init__(self, message: TableMessage) -> None:
        entries: list[bytes] = []
        sent: list[tuple[int, Array | Filling]] = []
        for name, array in (*message.arrays, *message.filled):
            dtype, shape, text = array.dtype, array.shape, name.encode()
            number, rank = _NUMBER.get(dtype), len(shape)
            if number is None or rank > _MOST_RANK:
                raise TypeError(f"{name}: messages carry no {dtype} of rank {rank}")
            entries.append(_ENTRY.pack(len(text), number, rank) + _SIZES[rank].pack(*shape) + text)
            sent.append((math.prod(shape) * dtype.itemsize, array))
        told = b"".join(entries)
        self._told = told + bytes(-len(told) % 8)
        self._parts: list[tuple[int, int, Array | Filling]] = []
        end = len(self._told)
        for size, array in sent:
            if size:
                end += -end % 8
                self._parts.append((end, size, array))
                end += size
        self.size = end  # of all but the head
        own = message.kind, message.epoch, message.trainer, message.flags
        numbers = message.session, message.sequence, message.job, len(sent), len(told)
        self.head = _HEAD.pack(MAGIC, _VERSION, *own, *numbers, HEAD_BYTES + end)

    def buffers(self) -> list[Any]:
        """The message as buffers that follow each other, its arrays where they lie."""
        found: list[Any] = [self.head + self._told]
        end = len(self._told)
        for start, size, array in self._parts:
            if start > end:
                found.append(bytes(start - end))
            end = start + size
            if not isinstance(array, np.ndarray):
                array, filling = np.empty(array.shape, array.dtype), array
                filling.fill(array)
            found.append(np.ascontiguousarray(array).data.cast("B"))
        return found

    def write(self, target: Array) -> None:
        """Writes all but the head to memory, uint8 [size or more], that begins at a number."""
        raw = target.data
        raw[: len(self._told)] = self._told
        for start, size, array in self._parts:
            if isinstance(array, np.ndarray):
                raw[start : start + size] = np.ascontiguousarray(array).data.cast("B")
            else:
                array.fill(target[start : start + size].view(array.dtype).reshape(array.shape))


def encode(message: TableMessage) -> bytes:
    """The message as bytes. TypeError for arrays of a type that messages don't carry."""
    return b"".join(MessageBytes(message).buffers())


class Head(NamedTuple):
    """What a message begins with; size: of the whole message, in bytes."""

    magic: bytes
    version: int
    kind: int
    epoch: int
    trainer: int
    flags: int
    session: int
    sequence: int
    job: int
    arrays: int
    told: int
    size: int


def head_of(raw: Any) -> Head:
    """The head in the first `HEAD_BYTES` of a message. MalformedMessage where that is none."""
    found = Head._make(_HEAD.unpack_from(raw))
    if found.magic != MAGIC or found.version != _VERSION:
        raise MalformedMessage(f"begins with {found.magic!r} and version {found.version}")
    return found


def decode(raw: Any) -> TableMessage:
    """The message of these bytes. MalformedMessage for others.

    Its arrays may be written to: they are the memory of a buffer that may be, and a copy of bytes.
    """
    if len(raw) < HEAD_BYTES:
        raise MalformedMessage(f"{len(raw)} bytes are less than a message's head")
    own = memoryview(bytearray(raw) if isinstance(raw, bytes) else raw)
    return put_together(head_of(own), own[HEAD_BYTES:])


def put_together(head: Head, body: memoryview) -> TableMessage:
    """The message of a head and of the bytes after it, which its arrays are the memory of.

    MalformedMessage where they are none. Each number in `body` is read once: it may lie in memory
    that another process changes meanwhile.
    """
    if head.kind not in _KINDS:
        raise MalformedMessage(f"there are no messages of kind {head.kind}")
    if head.size != HEAD_BYTES + len(body):
        raise MalformedMessage(f"says it has {head.size} bytes, and has {HEAD_BYTES + len(body)}")
    if head.arrays > _MOST_ARRAYS or head.told > len(body):
        raise MalformedMessage(f"has {head.arrays} arrays described by {head.told} bytes")
    arrays = list(_arrays(body, head.arrays, head.told))
    own = head.trainer, head.session, head.sequence, head.job, head.flags
    return TableMessage(_KINDS[head.kind], *own, arrays, head.epoch)


def _arrays(raw: memoryview, count: int, end: int) -> Iterator[NamedArray]:
    place, data = 0, end + -end % 8
    for _ in range(count):
        name, kind, shape, place = _entry(raw, place, end)
        dtype = _DTYPES[kind]
        length = math.prod(shape)
        if length:
            data += -data % 8
        if length * dtype.itemsize > len(raw) - data:
            raise MalformedMessage(f"{name!r} of shape {shape} is longer than the message")
        if not length:
            yield name, _empty(shape, dtype)
            continue
        yield name, np.frombuffer(raw, dtype, length, data).reshape(shape)
        data += length * dtype.itemsize
    if place != end or data != len(raw):
        raise MalformedMessage(f"{len(raw) - data} bytes belong to no array")


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    try:
        return np.empty(shape, dtype)
    except ValueError as error:
        raise MalformedMessage(f"an array of shape {shape}: {error}") from error


def _entry(raw: memoryview, place: int, end: int) -> tuple[str, int, tuple[int, ...], int]:
    if place + _ENTRY.size > end:
        raise MalformedMessage("descriptions of arrays end early")
    length, kind, rank = _ENTRY.unpack_from(raw, place)
    place += _ENTRY.size
    if kind >= len(_TYPES) or rank > _MOST_RANK or length > _MOST_NAME:
        raise MalformedMessage(f"an array of type {kind}, rank {rank}, name of {length} bytes")
    if place + 8 * rank + length > end:
        raise MalformedMessage("descriptions of arrays end early")
    shape = _SIZES[rank].unpack_from(raw, place)
    place += 8 * rank
    if rank and not 0 <= min(shape) <= max(shape) <= _MOST_LONG:
        raise MalformedMessage(f"an array of shape {shape}")
    try:
        name = bytes(raw[place : place + length]).decode()  # read once: it may change meanwhile
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"a name is no text: {error}") from error
    return name, kind, shape, place + length
