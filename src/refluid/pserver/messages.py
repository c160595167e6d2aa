"""Messages between trainers and servers: named arrays after a fixed head, nothing executable.

    head       magic, kind, epoch, trainer, flags, session, sequence, job, how many arrays, bytes
    each array length of its name, type, rank, sizes, name
    data       the arrays' bytes one after the other, each beginning at a multiple of 8

Everything is checked against the length of the message before it is believed.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

_HEAD = struct.Struct("<4sBBHiIQQQIIQ")
_ENTRY = struct.Struct("<HBB")
MAGIC, _VERSION = b"RFPS", 2
HEAD_BYTES = _HEAD.size
_MOST_ARRAYS, _MOST_RANK, _MOST_NAME, _MOST_JSON = 2**17, 8, 1024, 2**26
_TYPES: tuple[Any, ...] = (np.float32, np.float64, np.int64, np.int32, np.uint8, np.float16)
_NUMBER = {np.dtype(one): number for number, one in enumerate(_TYPES)}
_VALUES = "json"


Array = np.ndarray[Any, Any]
NamedArray = tuple[str, Array]


class MalformedMessage(ValueError):
    """Bytes that are no message; the text says what is wrong."""


class Kind(IntEnum):
    """What a message asks for, or that it is an answer."""

    HELLO = 1
    PUSH = 2
    PULL = 3
    ROWS = 4
    BEAT = 5
    LEAVE = 6
    EXPORT = 7
    IMPORT = 8
    SAVE = 9
    STATE = 10
    GATHER = 11
    END_PASS = 12
    CHANGE = 13
    FILL = 14
    CONDUCT = 15
    ANSWER = 64
    REFUSAL = 65


_KINDS = {int(one): one for one in Kind}


class MessageFlag(IntEnum):
    """What else a message says; several may be set."""

    WANTS_DENSE = 1  # of a push: answer with the parameters as they are then
    PENDING = 2  # of an answer: the push is there and waits for others; ask again
    AGAIN = 16  # of an answer: the push isn't there; send it again
    DELTA = 4  # of a push: what to add to parameters, rather than gradients
    READ_ONLY = 8  # of a pull of rows: those that aren't there are not made


class Remedy(StrEnum):
    """What a caller is told to do about a call that wasn't answered."""

    ENTER = "enter first"
    AGAIN = "try again"
    LAYOUT = "others are there"
    NEVER = "don't"


@dataclass
class TableMessage:
    """One call or answer. trainer -1: none. session: of this life of the trainer's process.

    sequence: the number of a push in its session; the same one again is the same push. job: which
    tables both sides believe in. epoch: which servers.
    """

    kind: Kind
    trainer: int = -1
    session: int = 0
    sequence: int = 0
    job: int = 0
    flags: int = 0
    arrays: Sequence[NamedArray] = field(default_factory=list)
    epoch: int = 0

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The arrays as tensors of the same memory."""
        for name, array in self.arrays:
            yield name, torch.from_numpy(array)

    def kept(self) -> TableMessage:
        """The message with arrays of its own."""
        return replace(self, arrays=[(name, array.copy()) for name, array in self.arrays])

    def array(self, name: str) -> Array:
        """The first array of that name. MalformedMessage where there is none."""
        for one, found in self.arrays:
            if one == name:
                return found
        raise MalformedMessage(f"a message {self.kind.name} lacks {name!r}")

    def values(self) -> dict[str, Any]:
        """What `with_values` put in. MalformedMessage where that is none."""
        raw = self.array(_VALUES)
        if raw.dtype != np.uint8 or raw.nbytes > _MOST_JSON:
            raise MalformedMessage("values are text of at most 64 MB")
        try:
            found = json.loads(raw.tobytes())
        except (UnicodeDecodeError, RecursionError, ValueError) as error:
            raise MalformedMessage(f"values are no JSON: {error}") from error
        if not isinstance(found, dict):
            raise MalformedMessage("values are a JSON object")
        return found


def text_array(values: Mapping[str, Any]) -> NamedArray:
    """Numbers, text, and lists and dicts of them, as an array of a message."""
    raw = json.dumps(values).encode()
    return _VALUES, np.frombuffer(raw, np.uint8)


def as_array(value: Tensor) -> Array:
    """A tensor as an array of a message."""
    found: Array = value.detach().contiguous().numpy()
    return found


def named(values: Mapping[str, Tensor]) -> list[NamedArray]:
    """Tensors as arrays of a message."""
    return [(name, as_array(value)) for name, value in values.items()]


def refusal(meaning: Remedy, text: str, **others: Any) -> TableMessage:
    """The answer that says what is wrong with a call."""
    told = {"meaning": meaning, "text": text, **others}
    return TableMessage(Kind.REFUSAL, arrays=[text_array(told)])


def pieces(message: TableMessage) -> list[Any]:
    """The message as buffers that follow each other, those of its arrays being their own memory.

    TypeError for arrays of a type that messages don't carry.
    """
    entries: list[bytes] = []
    data: list[Any] = []
    end = 0
    for name, array in message.arrays:
        number = _NUMBER.get(array.dtype)
        if number is None:
            raise TypeError(f"{name}: messages carry no {array.dtype}")
        text = name.encode()
        entries.append(_ENTRY.pack(len(text), number, array.ndim))
        entries.append(struct.pack(f"<{array.ndim}q", *array.shape) + text)
        if array.size:
            if end % 8:
                data.append(bytes(-end % 8))
            data.append(np.ascontiguousarray(array).view(np.uint8).data.cast("B"))
            end += -end % 8 + array.nbytes
    told = b"".join(entries)
    start = HEAD_BYTES + len(told)
    head = _HEAD.pack(
        MAGIC,
        _VERSION,
        message.kind,
        message.epoch,
        message.trainer,
        message.flags,
        message.session,
        message.sequence,
        message.job,
        len(message.arrays),
        len(told),
        start + -start % 8 + end,
    )
    return [b"".join([head, told, bytes(-start % 8)]), *data]


def encode(message: TableMessage) -> bytes:
    """The message as bytes. TypeError for arrays of a type that messages don't carry."""
    return b"".join(pieces(message))


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
        dtype = np.dtype(_TYPES[kind])
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


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
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
    shape = struct.unpack_from(f"<{rank}q", raw, place)
    place += 8 * rank
    if any(one < 0 or one > 2**40 for one in shape):
        raise MalformedMessage(f"an array of shape {shape}")
    try:
        name = bytes(raw[place : place + length]).decode()
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"a name is no text: {error}") from error
    return name, kind, shape, place + length
