"""The two ends of the connection between a worker process and the process that started it."""

from __future__ import annotations

import os
import pickle
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from refluid.feed.workers.areas import DATA, LentAreas, OwnAreas
from refluid.feed.workers.packing import pack, unpack

# kind, new area, area, number, bytes
_RECORD = struct.Struct("<BBxxIQQ")
_LENGTH = struct.Struct("<I")
# What is smaller is sent through the socket itself.
_SMALL = 32 * 1024
_INLINE = 0xFFFFFFFF


class MessageKind(IntEnum):
    """What a message from a worker means."""

    ITEM = 1
    END = 2
    ERROR = 3


class Disconnected(Exception):
    """The other process has gone, or wants no more."""


@dataclass(frozen=True)
class Message:
    """A message of a worker: `number` says which task or item it belongs to."""

    kind: MessageKind
    number: int
    value: Any


class WorkerEnd:
    """What a worker process sends through, and receives its orders from."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._areas = OwnAreas()

    def send(self, kind: MessageKind, number: int, value: Any) -> None:
        """Sends an object; large arrays through shared memory. Disconnected if nobody listens."""
        packed = pack(value)
        if packed.size <= _SMALL:
            data = bytearray(_RECORD.size + packed.size)
            _RECORD.pack_into(data, 0, kind, False, _INLINE, number, packed.size)
            packed.write(memoryview(data)[_RECORD.size :])
            self._tell(data, None)
            return
        area, memory, descriptor = self._areas.take(packed.size)
        with memoryview(memory) as view, view[DATA:] as data_view:
            packed.write(data_view)
        new = descriptor is not None
        self._tell(_RECORD.pack(kind, new, area, number, packed.size), descriptor)

    def _tell(self, record: bytes | bytearray, descriptor: int | None) -> None:
        try:
            if descriptor is None:
                self._socket.sendall(record)
            else:
                socket.send_fds(self._socket, [record], [descriptor])
                os.close(descriptor)
        except OSError as error:
            raise Disconnected from error

    def receive(self) -> Any:
        """The next order, waiting for it. Disconnected if none will come."""
        try:
            (length,) = _LENGTH.unpack(_exactly(self._socket, _LENGTH.size))
            return pickle.loads(_exactly(self._socket, length))
        except (OSError, EOFError) as error:
            raise Disconnected from error


class ReaderEnd:
    """What the starting process receives through.

    lend: objects may refer to the memory of so many messages at a time. More are copied, so that
    a worker never needs much memory, whatever is kept.
    """

    def __init__(self, connection: socket.socket, lend: int) -> None:
        self.socket = connection
        self._lend = lend
        self._areas = LentAreas()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, order: Any) -> None:
        """Sends an order to the worker. Disconnected if it has gone."""
        data = pickle.dumps(order, protocol=5)
        try:
            self.socket.sendall(_LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise Disconnected from error

    def receive(self) -> Message:
        """The next message, waiting for it. Disconnected if none will come."""
        try:
            record, descriptors, _, _ = socket.recv_fds(self.socket, _RECORD.size, 1)
            if not record:
                raise EOFError
            record += _exactly(self.socket, _RECORD.size - len(record))
            kind, new, area, number, size = _RECORD.unpack(record)
            if area == _INLINE:
                return Message(MessageKind(kind), number, unpack(_exactly(self.socket, size)))
        except (OSError, EOFError) as error:
            raise Disconnected from error
        if new:
            self._areas.attach(area, descriptors[0])
        lend = self._areas.lent < self._lend
        return Message(
            MessageKind(kind),
            number,
            unpack(self._areas.lend(area) if lend else self._areas.copy(area)),
        )

    def close(self) -> None:
        """Ends the connection."""
        self.socket.close()


def connect(lend: int) -> tuple[ReaderEnd, socket.socket]:
    """A new connection: the starting process's end, and the socket of the worker's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return ReaderEnd(ours, lend), theirs


def _exactly(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    position = 0
    while position < size:
        count = connection.recv_into(view[position:])
        if not count:
            raise EOFError
        position += count
    return data
