"""Checkpoints of a server, and a log of what came since, so that a restarted server goes on.

    FOLDER/server-N/state       variables that are no rows, and which pushes of whom were applied
    FOLDER/server-N/rows-T-K    part K of the rows of the T-th table
    FOLDER/server-N/log-S       messages accepted since checkpoint number S, where asked for

Each but the log is one message (`messages.py`). A checkpoint's files are all put in place or none.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from refluid.core.errors import EnforceNotMet
from refluid.core.writing import write_files
from refluid.pserver.members import Member
from refluid.pserver.messages import (
    Kind,
    MalformedMessage,
    TableMessage,
    decode,
    encode,
    named,
    text_array,
)
from refluid.pserver.table_server import TableServer

_LOGGER = logging.getLogger("refluid")
_LENGTH = struct.Struct("<Q")
_ROWS = 2**20
_STATE = "state"


class ServerCheckpoints:
    """A server's checkpoints below a folder. logs: whether what comes between them is kept too."""

    def __init__(self, server: TableServer, folder: str | Path, *, logs: bool = False) -> None:
        self._server, self._logs = server, logs
        self.home = Path(folder) / f"server-{server.number}"
        self._number = 0
        self._log: BinaryIO | None = None

    def restore(self) -> bool:
        """Gives the server what the last checkpoint has, and the log after it; whether it had any.

        EnforceNotMet where it is of another job or damaged.
        """
        path = self.home / _STATE
        found = path.is_file()
        if found:
            self._read(path)
        replayed = self._replay()
        if found or replayed:
            _LOGGER.info(
                "server %d goes on from checkpoint %d and %d messages after it",
                self._server.number,
                self._number,
                replayed,
            )
        self._begin_log(append=True)
        return found or replayed > 0

    def write(self) -> None:
        """Writes a checkpoint; the server answers nobody meanwhile.

        EnforceNotMet where it can't be written: the one before is still there, and the log goes on.
        """
        server = self._server
        with server.changed:
            number = self._number + 1
            arrays: list[tuple[str, Callable[[], TableMessage]]] = []
            parts = {}
            for place, table in enumerate(server.tables.sparse.values()):
                starts = range(0, table.rows, _ROWS)
                parts[str(place)] = len(starts)
                for part, start in enumerate(starts):
                    made = partial(_rows, table, start)
                    arrays.append((f"rows-{place}-{part}", made))
            arrays.append((_STATE, partial(self._state, number, parts)))
            self.home.mkdir(parents=True, exist_ok=True)
            files = [(self.home / name, partial(_put, made)) for name, made in arrays]
            write_files(files)
            self._number = number
            self._begin_log(append=False)
        _LOGGER.info("server %d wrote checkpoint %d to %s", server.number, number, self.home)

    def close(self) -> None:
        """Ends the log's file."""
        if self._log is not None:
            self._log.close()
            self._log = None

    # -- state ----------------------------------------------------------------

    def _state(self, number: int, parts: dict[str, int]) -> TableMessage:
        server = self._server
        members = {
            str(trainer): [one.session, one.applied, one.there]
            for trainer, one in server.members.known.items()
        }
        told = {"number": number, "parts": parts, "members": members}
        arrays = [text_array(told), *named(server.tables.dense.state())]
        return TableMessage(Kind.ANSWER, job=server.job, arrays=arrays)

    def _read(self, path: Path) -> None:
        server = self._server
        message = _got(path)
        if message.job != server.job:
            raise EnforceNotMet(
                f"{path} is of another job: its program, servers or number of trainers differ. "
                "Give this job a folder of its own"
            )
        told = message.values()
        self._number = int(told["number"])
        for name, value in message.tensors():
            cell = server.tables.dense.scope.find_var(name)
            if name != "json" and cell is not None:
                cell.value = value.clone()
        for place, table in enumerate(server.tables.sparse.values()):
            table.clear()
            for part in range(told["parts"].get(str(place), 0)):
                kept = dict(_got(self.home / f"rows-{place}-{part}").tensors())
                table.put(kept.pop("ids"), kept)
        for trainer, (session, applied, there) in told["members"].items():
            now = server.members.now
            server.members.known[int(trainer)] = Member(session, applied, now, there)

    # -- log ------------------------------------------------------------------

    def _begin_log(self, *, append: bool) -> None:
        if not self._logs:
            return
        self.close()
        for old in self.home.glob("log-*"):
            if old != self._log_path:
                old.unlink()
        self.home.mkdir(parents=True, exist_ok=True)
        self._log = self._log_path.open("ab" if append else "wb")
        self._server.accepted = self._write

    @property
    def _log_path(self) -> Path:
        return self.home / f"log-{self._number}"

    def _write(self, message: TableMessage) -> None:
        assert self._log is not None
        raw = encode(message)
        self._log.write(_LENGTH.pack(len(raw)) + raw)
        self._log.flush()

    def _replay(self) -> int:
        """Has the server take what it had accepted after the checkpoint; how many messages."""
        if not self._log_path.is_file():
            return 0
        hold, self._server.hold = self._server.hold, 0.0
        count, end = 0, 0
        try:
            for message, place in _messages(self._log_path):
                self._server.answer(message)
                count, end = count + 1, place
        finally:
            self._server.hold = hold
        with self._log_path.open("r+b") as file:  # what a crash left half written
            file.truncate(end)
        return count


def _messages(path: Path) -> Iterator[tuple[TableMessage, int]]:
    """The whole messages of a log, and where each ends."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while size - file.tell() >= _LENGTH.size:
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            if length > size - file.tell():
                return
            yield decode(file.read(length)), file.tell()


def _rows(table: Any, start: int) -> TableMessage:
    ids, kept = table.chunk(start, _ROWS)
    return TableMessage(Kind.ANSWER, arrays=[("ids", ids.numpy()), *named(kept)])


def _put(made: Callable[[], TableMessage], file: BinaryIO) -> None:
    file.write(encode(made()))


def _got(path: Path) -> TableMessage:
    try:
        return decode(path.read_bytes())
    except (MalformedMessage, OSError) as error:
        raise EnforceNotMet(f"{path} is damaged: {error}") from error
