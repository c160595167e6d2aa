"""Checkpoints of a server, and a log of what came since, so that a restarted server goes on.

    FOLDER/server-N/state-S     variables that are no rows, and which pushes of whom were applied
    FOLDER/server-N/rows-S-T-K  part K of the rows of the T-th table
    FOLDER/server-N/log-S       messages accepted since checkpoint number S, where asked for

Each but the log is one message (`messages.py`). The last checkpoint is the one whose state is
there, which is put in place last; of tables on disk it is the one that their store committed.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from refluid.core.errors import EnforceNotMet
from refluid.core.writing import write_files
from refluid.pserver.disk_rows import RowStore
from refluid.pserver.disk_table import DiskTable
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
from refluid.pserver.sparse_table import SparseTable
from refluid.pserver.table_server import TableServer

_LOGGER = logging.getLogger("refluid")
_LENGTH = struct.Struct("<Q")
_ROWS = 2**20


def server_folder(folder: str | Path, number: int) -> Path:
    """Where a server has its files below a folder."""
    return Path(folder) / f"server-{number}"


def has_checkpoint(home: Path) -> bool:
    """Whether a server's folder has a checkpoint, or a log that goes on from none."""
    return any(home.glob("state-*")) or any(home.glob("log-*"))


class ServerCheckpoints:
    """A server's checkpoints below a folder.

    logs: whether what comes between them is kept too. store: of tables on disk, if there are any.
    """

    def __init__(
        self,
        server: TableServer,
        folder: str | Path,
        *,
        logs: bool = False,
        store: RowStore | None = None,
    ) -> None:
        self._server, self._logs, self._store = server, logs, store
        self.home = server_folder(folder, server.number)
        self._number = 0
        self._log: BinaryIO | None = None

    def restore(self) -> bool:
        """Gives the server what the last checkpoint has, and the log after it; whether it had any.

        EnforceNotMet where it is of another job or damaged.
        """
        number = self._last()
        found = number > 0
        if found:
            self._read(self.home / f"state-{number}")
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
            files: list[tuple[Path, Callable[[BinaryIO], None]]] = []
            counts = []
            for place, table in enumerate(_parts(server)):
                starts = _starts(table)
                counts.append(len(starts))
                for part, start in enumerate(starts):
                    made = partial(_rows, table, start)
                    files.append((self.home / f"rows-{number}-{place}-{part}", partial(_put, made)))
            state = partial(self._state, number, counts)
            files.append((self.home / f"state-{number}", partial(_put, state)))
            self.home.mkdir(parents=True, exist_ok=True)
            write_files(files)
            if self._store is not None:
                self._store.commit(number)
            self._number = number
            self._begin_log(append=False)
            self._drop_others()
        _LOGGER.info("server %d wrote checkpoint %d to %s", server.number, number, self.home)

    def close(self) -> None:
        """Ends the log's file."""
        if self._log is not None:
            with suppress(OSError):  # of a full disk, which `_write` has told of
                self._log.close()
            self._log = None

    def _last(self) -> int:
        """The number of the last checkpoint, 0 where there is none."""
        if self._store is not None:
            return self._store.commits
        found = [one.name.removeprefix("state-") for one in self.home.glob("state-*")]
        return max((int(one) for one in found if one.isdigit()), default=0)

    def _drop_others(self) -> None:
        """Removes files of other checkpoints than the last."""
        for one in self.home.iterdir():
            kind, _, rest = one.name.partition("-")
            if kind in ("state", "rows", "log") and rest.partition("-")[0] != str(self._number):
                one.unlink()

    # -- state ----------------------------------------------------------------

    def _state(self, number: int, parts: list[int]) -> TableMessage:
        server = self._server
        members = {
            str(trainer): [one.session, one.applied, one.ended, one.there]
            for trainer, one in server.members.known.items()
        }
        marks = [table.marks() for table in _parts(server)]
        told = {"number": number, "parts": parts, "marks": marks, "members": members}
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
        for place, table in enumerate(_parts(server)):
            if not isinstance(table, DiskTable):
                table.clear()
            for part in range(told["parts"][place]):
                kept = dict(_got(self.home / f"rows-{self._number}-{place}-{part}").tensors())
                table.put(kept.pop("ids"), kept)
            table.set_marks(told["marks"][place])
        for trainer, (session, applied, ended, there) in told["members"].items():
            now = server.members.now
            server.members.known[int(trainer)] = Member(session, applied, ended, now, there)

    # -- log ------------------------------------------------------------------

    def _begin_log(self, *, append: bool) -> None:
        if not self._logs:
            return
        self.close()
        self.home.mkdir(parents=True, exist_ok=True)
        self._log = self._log_path.open("ab" if append else "wb")
        self._server.accepted = self._write

    @property
    def _log_path(self) -> Path:
        return self.home / f"log-{self._number}"

    def _write(self, message: TableMessage) -> None:
        if self._log is None:
            return
        raw = encode(message)
        try:
            self._log.write(_LENGTH.pack(len(raw)) + raw)
            self._log.flush()
        except OSError as error:
            _LOGGER.error(
                "%s can't be written: %s. If this server is killed before its next checkpoint, "
                "what comes until then is lost",
                self._log_path,
                error,
            )
            self.close()

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


def _parts(server: TableServer) -> list[SparseTable]:
    """All that has rows."""
    return [part for table in server.tables.sparse.values() for part in table.parts()]


def _starts(table: SparseTable) -> range:
    """Where the parts begin that rows are written in; those on disk are written there."""
    if isinstance(table, DiskTable):
        table.flush()
        return range(0)
    return range(0, table.rows, _ROWS)


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
