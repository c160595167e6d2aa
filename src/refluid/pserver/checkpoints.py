"""Checkpoints of a server, and a log of what came since, so that a restarted server goes on.

    FOLDER/server-N/state-S     variables that are no rows, and which pushes of whom were applied
    FOLDER/server-N/rows-S-T-K  part K of the rows of the T-th table
    FOLDER/server-N/log-S       messages accepted since checkpoint S was begun, where asked for

Each but the log is one message (`messages.py`). The last checkpoint is the one whose state is
there, which is put in place last; of tables on disk it is the one that their store committed. What
came since is in all logs from its number on: a later one may have been begun and not ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.writing import write_files
from refluid.pserver.disk_rows import RowStore
from refluid.pserver.layout import described, layout_of
from refluid.pserver.marks import read_marks, told_marks
from refluid.pserver.members import Member
from refluid.pserver.message_log import MessageLog
from refluid.pserver.messages import Kind, MalformedMessage, TableMessage, named, text_array
from refluid.pserver.packing import MessageBytes, decode
from refluid.pserver.row_snapshots import RowSnapshot
from refluid.pserver.sparse_table import SparseTable
from refluid.pserver.table_server import TableServer

_LOGGER = logging.getLogger("refluid")
# Rows in a file, and how many are copied, or written to tables on disk, while trainers wait.
_ROWS, _COPIED, _FLUSHED = 2**20, 2**15, 2**13
_MOST_FLUSHES = 2**16
_ADDRESS = "address"


def server_folder(folder: str | Path, number: int) -> Path:
    """Where a server has its files below a folder."""
    return Path(folder) / f"server-{number}"


def note_address(folder: str | Path, number: int, address: str) -> None:
    """Keeps at which address a server came to the job."""
    home = server_folder(folder, number)
    home.mkdir(parents=True, exist_ok=True)
    (home / _ADDRESS).write_text(address)


def number_at(folder: str | Path, address: str) -> int | None:
    """The number of the server that came to the job at an address, if one did."""
    for one in Path(folder).glob(f"server-*/{_ADDRESS}"):
        if one.read_text() == address:
            return int(one.parent.name.removeprefix("server-"))
    return None


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
        self._server, self.logs, self._store = server, logs, store
        self.home = server_folder(folder, server.number)
        self._number = self._begun = 0
        self._log, self._writing = MessageLog(self.home), threading.Lock()

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
        if self._server.over:  # the job ended, and begins again with what it learned
            self._server.members.begin_anew()
            self._server.gathers.clear()
        self._begun = max(self._number, self._log.last)
        self._begin_log(self._begun)
        return found or replayed > 0

    def write(self) -> None:
        """Writes a checkpoint of this moment; meanwhile the server goes on, but for tables on disk.

        EnforceNotMet where it can't be written: the one before is still there, and the log goes on.
        """
        server = self._server
        with self._writing:
            if self._store is None:
                self._write_beside()
            else:
                for table in _parts(server):
                    _flush_slowly(server, table)
                with server.changed:
                    self._write_held(self._store)
            for one in self.home.iterdir():
                kind, _, rest = one.name.partition("-")
                if kind in ("state", "rows") and rest.partition("-")[0] != str(self._number):
                    one.unlink()
            self._log.drop_before(self._number)
        _LOGGER.info("server %d wrote checkpoint %d to %s", server.number, self._number, self.home)

    def _write_beside(self) -> None:
        """Tables in memory: as they are now, while they go on changing."""
        server, tables = self._server, _parts(self._server)
        with server.changed:
            number = self._begun + 1
            self._begin_log(number)
            self._begun = number
            snapshots = [table.snapshot() for table in tables]
            parts = [range(0, one.count, _ROWS) for one in snapshots]
            state = self._state(number, [len(one) for one in parts])
        files: list[tuple[Path, Callable[[BinaryIO], None]]] = []
        for place, (snapshot, starts) in enumerate(zip(snapshots, parts, strict=True)):
            for part, start in enumerate(starts):
                made = partial(_rows, server, snapshot, start)
                files.append((self.home / f"rows-{number}-{place}-{part}", partial(_put, made)))
        files.append((self.home / f"state-{number}", partial(_put, lambda: state)))
        try:
            write_files(files)
        finally:
            with server.changed:
                for table in tables:
                    table.end_snapshot()
        self._number = number

    def _write_held(self, store: RowStore) -> None:
        """Tables on disk: nothing changes until their rows are there."""
        number = self._begun + 1
        for table in _parts(self._server):
            table.flush()
        state = self._state(number, [0] * len(_parts(self._server)))
        write_files([(self.home / f"state-{number}", partial(_put, lambda: state))])
        store.commit(number)
        self._number = self._begun = number
        self._begin_log(number)

    def close(self) -> None:
        """Ends the log's file."""
        self._log.close()

    def _last(self) -> int:
        """The number of the last checkpoint, 0 where there is none."""
        if self._store is not None:
            return self._store.commits
        found = [one.name.removeprefix("state-") for one in self.home.glob("state-*")]
        return max((int(one) for one in found if one.isdigit()), default=0)

    def _begin_log(self, number: int) -> None:
        if self.logs:
            self._log.begin(number)
            self._server.accepted = self._log.write

    def _replay(self) -> int:
        """Has the server take what it had accepted after the checkpoint; how many messages."""
        hold, self._server.hold = self._server.hold, 0.0
        count = 0
        try:
            for message in self._log.read(self._number):
                self._server.answer(message)
                count += 1
        finally:
            self._server.hold = hold
        return count

    # -- state ----------------------------------------------------------------

    def _state(self, number: int, parts: list[int]) -> TableMessage:
        server = self._server
        members = {
            str(trainer): [one.session, told_marks(one.marks), one.ended, one.there, one.left]
            for trainer, one in server.members.known.items()
        }
        marks = [table.marks() for table in _parts(server)]
        told = {
            "number": number,
            "parts": parts,
            "marks": marks,
            "members": members,
            "layout": described(server.layout),
            "change": server.change(),
        }
        dense = {name: value.clone() for name, value in server.tables.dense.state().items()}
        arrays = [text_array(told), *named(dense)]
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
            if name != "json":
                server.tables.dense.scope.var(name).value = value.clone()
        server.restore(layout_of(told["layout"]), told["change"])
        for place, table in enumerate(_parts(server)):
            if self._store is None:
                table.clear()
            for part in range(told["parts"][place]):
                kept = dict(_got(self.home / f"rows-{self._number}-{place}-{part}").tensors())
                table.put(kept.pop("ids"), kept)
            table.set_marks(told["marks"][place])
        for trainer, (session, marks, ended, there, left) in told["members"].items():
            now = server.members.now
            server.members.known[int(trainer)] = Member(
                session, read_marks(marks), ended, now, there, left=left
            )


def _parts(server: TableServer) -> list[SparseTable]:
    """All that has rows."""
    return [part for table in server.tables.sparse.values() for part in table.parts()]


def _flush_slowly(server: TableServer, table: SparseTable) -> None:
    """Most of what a table on disk has to write, some rows at a time."""
    for _ in range(_MOST_FLUSHES):
        with server.changed:
            if not table.flush(_FLUSHED):
                return


def _rows(server: TableServer, snapshot: RowSnapshot, start: int) -> TableMessage:
    """Some rows of a table; the server's lock is held while a few of them are copied."""
    chunks = []
    for begin in range(start, min(start + _ROWS, snapshot.count), _COPIED):
        with server.changed:
            chunks.append(snapshot.chunk(begin, _COPIED))
    ids = torch.cat([ids for ids, _ in chunks])
    kept = {name: torch.cat([kept[name] for _, kept in chunks]) for name in chunks[0][1]}
    return TableMessage(Kind.ANSWER, arrays=[("ids", ids.numpy()), *named(kept)])


def _put(made: Callable[[], TableMessage], file: BinaryIO) -> None:
    file.writelines(MessageBytes(made()).buffers())


def _got(path: Path) -> TableMessage:
    try:
        return decode(path.read_bytes())
    except (MalformedMessage, OSError) as error:
        raise EnforceNotMet(f"{path} is damaged: {error}") from error
