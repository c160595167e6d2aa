"""What moves between servers when others come or go, and how it is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.rows.ids import deal_ids
from refluid.pserver.calling import Servers
from refluid.pserver.layout import JobLayout
from refluid.pserver.marks import ServerShare, told_shares
from refluid.pserver.messages import Kind, MalformedMessage, TableMessage, text_array
from refluid.pserver.server_programs import slices_of
from refluid.pserver.table_server import TableServer

_ROWS = 2**16
# Before the number of a gathering and that of a trainer: what it brought.
GATHERED = "gathered:"


@dataclass
class TableFill:
    """What one server hands another. table, part: of which `arrays` are rows; no table: slices.

    values: the table's marks; with slices, who trains and which of their pushes these have.
    """

    values: Mapping[str, Any]
    arrays: dict[str, Tensor]
    table: str | None = None
    part: int = 0

    @classmethod
    def read(cls, message: TableMessage) -> TableFill:
        """Of a message. MalformedMessage for another one."""
        values = message.values()
        table, part = values.get("table"), values.get("part")
        known = ("marks", "part") if table is not None else ("members", "leads")
        missing = [name for name in known if name not in values]
        arrays = {name: value for name, value in message.tensors() if name != "json"}
        if missing or (table is not None and "ids" not in arrays):
            raise MalformedMessage(f"what a server is filled with lacks {missing or 'ids'}")
        return cls(values, arrays, table, part if isinstance(part, int) else 0)

    def arrays_of_message(self) -> list[tuple[str, Any]]:
        told = {**self.values, "table": self.table, "part": self.part}
        found = [(name, value.contiguous().numpy()) for name, value in self.arrays.items()]
        return [text_array(told), *found]


class RowMover:
    """Sends what a server has to who has it under the `target` layout, in a thread."""

    def __init__(
        self, server: TableServer, servers: Servers, target: JobLayout, token: int
    ) -> None:
        self._server, self._servers, self._target, self._token = server, servers, target, token
        self._former, self._number = server.layout, server.number
        self._ended, self._stopped = threading.Event(), threading.Event()
        self._error: Exception | None = None
        self._rows = self._moved = self._bytes = 0
        self._thread: threading.Thread | None = None

    def begin(self, names: Mapping[str, Sequence[str]]) -> None:
        """names: what the server keeps for each of its slices."""
        does = threading.Thread(target=self._run, args=(names,), name="refluid mover", daemon=True)
        self._thread = does
        does.start()

    def done(self, seconds: float) -> bool:
        """Whether all was sent, at the latest after so many seconds."""
        return self._ended.wait(seconds)

    def result(self) -> dict[str, int]:
        """How many rows the server had and how many of them moved. What went wrong is raised."""
        if self._error is not None:
            raise self._error
        return {"rows": self._rows, "moved": self._moved, "bytes": self._bytes}

    def stop(self) -> None:
        """Sends nothing more."""
        self._stopped.set()
        self._servers.close()

    def _run(self, names: Mapping[str, Sequence[str]]) -> None:
        try:
            for number, fill in self._fills(names):
                if self._stopped.is_set():
                    return
                arrays = fill.arrays_of_message()
                job, epoch = self._former.job, self._former.epoch
                message = TableMessage(
                    Kind.FILL, session=self._token, job=job, epoch=epoch, arrays=arrays
                )
                self._bytes += sum(array.nbytes for _, array in arrays)
                self._servers.ask({number: message})
        except Exception as error:
            self._error = error
        finally:
            self._ended.set()

    def _fills(self, names: Mapping[str, Sequence[str]]) -> Iterator[tuple[int, TableFill]]:
        """To whom, and what."""
        if self._number not in self._former.numbers:
            return
        others = [one for one in self._target.numbers if one != self._number]
        self._rows = sum(table.rows for table in self._server.tables.sparse.values())
        for number in others:
            share = self._share(number)
            new = number not in self._former.numbers
            if share or new:
                yield number, self._slices(share, names, leads=new and self._leads)
        mine = self._former.owners == self._number
        if (self._target.owners[mine] == self._number).all():
            return
        for name, table in self._server.tables.sparse.items():
            for part, one in enumerate(table.parts()):
                for ids, kept in self._chunks(one):
                    dealt = deal_ids(ids, self._target.owners, len(self._target.servers))
                    for number in others:
                        if len(chosen := dealt[number]):
                            self._moved += 0 if part else len(chosen)
                            rows = {own: value[chosen] for own, value in kept.items()}
                            values = {"marks": one.marks()}
                            yield (
                                number,
                                TableFill(values, {"ids": ids[chosen], **rows}, name, part),
                            )

    @property
    def _leads(self) -> bool:
        return self._number == self._former.keeper

    def _chunks(self, table: Any) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """The table's rows; the server's lock is held while some are read."""
        with self._server.changed:
            found = iter(table.chunks(_ROWS))
        while True:
            with self._server.changed:
                chunk = next(found, None)
            if chunk is None:
                return
            yield chunk

    def _share(self, number: int) -> ServerShare:
        """What goes to another server."""
        parts = (self._former.owners == self._number) & (self._target.owners == number)
        own = {part.name for _, part in slices_of(self._former, self._number)}
        slices = {part.name for _, part in slices_of(self._target, number)}
        return ServerShare(parts, frozenset(own & slices))

    def _slices(
        self, share: ServerShare, names: Mapping[str, Sequence[str]], *, leads: bool
    ) -> TableFill:
        """Slices with all that is kept for them, and what everybody has where this one leads."""
        state = self._server.tables.dense.state()
        kept = {own for one in share.slices for own in names[one]}
        if leads:
            kept |= state.keys() - {own for one in names.values() for own in one}
        members = {
            str(trainer): {
                "session": one.session,
                "there": one.there,
                "left": one.left,
                "ended": one.ended,
                "applied": one.marks.applied,
                "shares": told_shares(one.marks.of(share)),
            }
            for trainer, one in self._server.members.known.items()
        }
        arrays = {name: value for name, value in state.items() if name in kept}
        if self._leads:  # for who leads next
            for sequence, trainer, value in self._server.gathers:
                arrays[f"{GATHERED}{sequence}:{trainer}"] = torch.from_numpy(value)
        return TableFill({"members": members, "leads": leads}, arrays)
