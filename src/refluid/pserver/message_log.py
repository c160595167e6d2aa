"""Messages that a server accepted, in files that follow each other, to be taken again."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from refluid.pserver.messages import TableMessage
from refluid.pserver.packing import decode, encode

_LOGGER = logging.getLogger("refluid")
_LENGTH = struct.Struct("<Q")


class MessageLog:
    """Files `log-N` in a folder; messages are added to the last one that was begun."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._file: BinaryIO | None = None
        self._path = home / "log-0"

    @property
    def last(self) -> int:
        """The number of the last file, 0 where there is none."""
        return max(self._numbers(), default=0)

    def begin(self, number: int) -> None:
        """Goes on in the file of that number. OSError where it can't be: then all is as before."""
        self._home.mkdir(parents=True, exist_ok=True)
        path = self._home / f"log-{number}"
        file = path.open("ab")
        self.close()
        self._path, self._file = path, file

    def write(self, message: TableMessage) -> None:
        """Adds a message. Where the disk is full that is told once, and nothing more is added."""
        if self._file is None:
            return
        raw = encode(message)
        try:
            self._file.write(_LENGTH.pack(len(raw)) + raw)
            self._file.flush()
        except OSError as error:
            _LOGGER.error(
                "%s can't be written: %s. If this server is killed before its next checkpoint, "
                "what comes until then is lost",
                self._path,
                error,
            )
            self.close()

    def read(self, first: int) -> Iterator[TableMessage]:
        """The messages from the file of that number on; what a crash left half written is cut."""
        for number in sorted(one for one in self._numbers() if one >= first):
            path, ends = self._home / f"log-{number}", [0]
            for message, end in _messages(path):
                yield message
                ends.append(end)
            with path.open("r+b") as file:
                file.truncate(ends.pop())

    def drop_before(self, number: int) -> None:
        """Removes files before the one of that number."""
        for one in self._numbers():
            if one < number:
                (self._home / f"log-{one}").unlink()

    def close(self) -> None:
        """Ends the file."""
        if self._file is not None:
            with suppress(OSError):  # of a full disk, which `write` has told of
                self._file.close()
            self._file = None

    def _numbers(self) -> list[int]:
        found = [one.name.removeprefix("log-") for one in self._home.glob("log-*")]
        return [int(one) for one in found if one.isdigit()]


def _messages(path: Path) -> Iterator[tuple[TableMessage, int]]:
    """The whole messages of a log, and where each ends."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while size - file.tell() >= _LENGTH.size:
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            if length > size - file.tell():
                return
            yield decode(file.read(length)), file.tell()
