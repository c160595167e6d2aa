"""A server's part when servers come or go: it holds trainers up, sends what moves, goes on.

    FREEZE   nothing is applied any more, and what waits for other trainers is dropped
    MOVE     rows, slices and marks go to who has them next (FILL); answered when all are there
    PREPARE  what came is kept where the server keeps checkpoints: it can go either way from now on
    COMMIT   the new layout holds, and what went elsewhere is dropped; or ABORT, and nothing was

The keeper has them do this (`conducting.py`). Who hears nothing more asks it how it ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.rows.ids import deal_ids
from refluid.pserver.layout import JobLayout, described, layout_of
from refluid.pserver.marks import read_shares
from refluid.pserver.members import Member
from refluid.pserver.messages import Kind, MalformedMessage, MessageFlag, TableMessage, text_array
from refluid.pserver.moving import GATHERED, RowMover, TableFill
from refluid.pserver.refusals import CallRefused
from refluid.pserver.sparse_table import SparseTable
from refluid.pserver.table_server import TableServer

_WAIT, _SWEPT = 2.0, 2**20


class ChangeStep(StrEnum):
    """What a server is told of a change."""

    FREEZE = "freeze"
    MOVE = "move"
    PREPARE = "prepare"
    COMMIT = "commit"
    ABORT = "abort"


@dataclass
class ServerChange:
    """One that is under way. token: its own. target: what is where then. decider: who says so."""

    token: int
    target: JobLayout
    decider: int
    heard: float = 0.0
    prepared: bool = False

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "token": self.token,
            "target": described(self.target),
            "decider": self.decider,
            "prepared": self.prepared,
        }


class ChangingServer:
    """What a server does when others come or go.

    adopt: makes what a layout says of its dense parameters. slice_names: what it keeps for each of
    its slices under a layout. mover: sends what the server has to who has it next.
    """

    def __init__(
        self,
        server: TableServer,
        adopt: Callable[[JobLayout], None],
        slice_names: Callable[[JobLayout, int], Mapping[str, list[str]]],
        mover: Callable[[ServerChange], RowMover],
    ) -> None:
        self.server, self.adopt, self._names, self._mover = server, adopt, slice_names, mover
        # Keeps all that the server has, where it keeps checkpoints and no log.
        self.durable: Callable[[], None] = lambda: None
        self.change: ServerChange | None = None
        self._moving: RowMover | None = None
        self._made = 0  # the last change that was made
        server.handlers[Kind.CHANGE] = self._told
        server.handlers[Kind.FILL] = self._fill
        server.change = lambda: None if self.change is None else self.change.told()
        server.restore = self._restore
        self._steps: dict[str, Callable[[TableMessage, Mapping[str, Any]], Mapping[str, Any]]] = {
            ChangeStep.FREEZE: self._freeze,
            ChangeStep.MOVE: self._move,
            ChangeStep.PREPARE: self._prepare,
            ChangeStep.COMMIT: self._commit,
            ChangeStep.ABORT: self._abort,
        }

    def _restore(self, layout: JobLayout, told: Mapping[str, Any] | None) -> None:
        """As a checkpoint has it. Servers are where this process was told, as far as it was."""
        server, known = self.server, self.server.layout.servers
        places = zip_longest(layout.servers, known, fillvalue="")
        servers = tuple((now or then) if then else "" for then, now in places)
        self.adopt(replace(layout, servers=servers))
        if told is not None:
            target = layout_of(told["target"])
            token, decides = int(told["token"]), int(told["decider"])
            self.change = ServerChange(token, target, decides, prepared=bool(told["prepared"]))
            server.frozen = True

    def _told(self, message: TableMessage) -> TableMessage:
        values = message.values()
        does = self._steps.get(str(values.get("step")))
        if does is None:
            raise MalformedMessage(f"servers don't change by {values.get('step')!r}")
        found = dict(does(message, values))
        flags = MessageFlag.PENDING * bool(found.pop("pending", False))
        return TableMessage(Kind.ANSWER, flags=flags, arrays=[text_array(found)])

    def _under_way(self, message: TableMessage) -> ServerChange:
        change = self.change
        if change is None or change.token != message.session:
            raise CallRefused("no such change of servers is under way")
        change.heard = time.monotonic()
        return change

    # -- steps ----------------------------------------------------------------

    def _freeze(self, message: TableMessage, values: Mapping[str, Any]) -> Mapping[str, Any]:
        server = self.server
        try:
            target, number = layout_of(values["layout"]), int(values["number"])
            decides = int(values["decider"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MalformedMessage(f"a change of servers has a layout: {error}") from error
        with server.changed:
            change = self.change
            if change is not None and (change.token, change.target) == (message.session, target):
                change.heard = time.monotonic()
                return {}
            if target.job != server.job or target.epoch <= server.layout.epoch:
                raise CallRefused(f"servers are at change {server.layout.epoch} already")
            if number != server.number and not server.joins:
                raise CallRefused(f"this is server {server.number}, not {number}")
            if change is not None:
                self._end(server.layout)
            server.number, server.frozen = number, True
            for trainer in server.members.known:
                server.applying.forget(trainer)
            self.change = ServerChange(message.session, target, decides, time.monotonic())
            server.accepted(message)
            server.changed.notify_all()
        return {}

    def _move(self, message: TableMessage, values: Mapping[str, Any]) -> Mapping[str, Any]:
        del values
        with self.server.changed:
            change = self._under_way(message)
            if self._moving is None:
                self._moving = self._mover(change)
                self._moving.begin(self._names(self.server.layout, self.server.number))
            moving = self._moving
        return {"pending": True} if not moving.done(_WAIT) else moving.result()

    def _prepare(self, message: TableMessage, values: Mapping[str, Any]) -> Mapping[str, Any]:
        del values
        with self.server.changed:
            change = self._under_way(message)
        if not change.prepared:
            self.durable()
            change.prepared = True
        return {}

    def _commit(self, message: TableMessage, values: Mapping[str, Any]) -> Mapping[str, Any]:
        del values
        with self.server.changed:
            if message.session == self._made:
                return {}
            change = self._under_way(message)
            self.commit(change)
        if change.decider == self.server.number:
            self.durable()
        return {}

    def commit(self, change: ServerChange) -> None:
        """The new layout holds. The server's lock is held around."""
        server = self.server
        self._accept(ChangeStep.COMMIT, change)
        server.joins, self._made = False, change.token
        self.adopt(change.target)
        self._end(change.target)

    def _abort(self, message: TableMessage, values: Mapping[str, Any]) -> Mapping[str, Any]:
        del values
        with self.server.changed:
            if self.change is not None and self.change.token == message.session:
                self.abort(self.change)
        return {}

    def abort(self, change: ServerChange) -> None:
        """Nothing changes. The server's lock is held around."""
        self._accept(ChangeStep.ABORT, change)
        self._end(self.server.layout)

    def _accept(self, step: ChangeStep, change: ServerChange) -> None:
        told = [text_array({"step": step})]
        job = self.server.job
        self.server.accepted(TableMessage(Kind.CHANGE, session=change.token, job=job, arrays=told))

    def _end(self, layout: JobLayout) -> None:
        """Trainers are answered again; what belongs elsewhere by the layout goes."""
        server = self.server
        for table in server.tables.sparse.values():
            for part in table.parts():
                _sweep(part, layout, server.number)
        self._drop_slices(layout)
        moving, self._moving, self.change, server.frozen = self._moving, None, None, False
        if moving is not None:
            moving.stop()
        server.changed.notify_all()

    def _drop_slices(self, layout: JobLayout) -> None:
        """Forgets slices that other servers have."""
        own = self._names(layout, self.server.number)
        scope = self.server.tables.dense.scope
        for number in layout.numbers:
            for part, names in self._names(layout, number).items():
                if part not in own:
                    scope.erase([name for name in names if scope.find_var(name) is not None])

    # -- what comes -----------------------------------------------------------

    def _fill(self, message: TableMessage) -> TableMessage:
        with self.server.changed:
            self._under_way(message)
            fill = TableFill.read(message)
            if fill.table is None:
                self._fill_dense(fill)
            else:
                parts = self.server.tables.table(fill.table).parts()
                if not 0 <= fill.part < len(parts):
                    raise MalformedMessage(f"table {fill.table} has no part {fill.part}")
                _fill_rows(parts[fill.part], fill)
            self.server.accepted(message)
        return TableMessage(Kind.ANSWER)

    def _fill_dense(self, fill: TableFill) -> None:
        """Slices, and which pushes of whom they and the rows have."""
        server = self.server
        for name, value in fill.arrays.items():
            if name.startswith(GATHERED):
                sequence, trainer = map(int, name.removeprefix(GATHERED).split(":"))
                server.gathers.bring(sequence, trainer, value.clone().numpy())
                continue
            server.tables.dense.scope.var(name).value = value.clone()
        for number, told in fill.values["members"].items():
            member = server.members.known.get(int(number))
            shares = read_shares(told["shares"])
            if member is None:
                member = Member(told["session"], seen=server.members.now)
                member.there, member.left, member.ended = told["there"], told["left"], told["ended"]
                server.members.known[int(number)] = member
            if member.session == told["session"]:
                if fill.values["leads"]:
                    member.marks.applied, member.ended = told["applied"], told["ended"]
                member.marks.take(shares)


def _fill_rows(table: SparseTable, fill: TableFill) -> None:
    ids, kept = fill.arrays.pop("ids"), fill.arrays
    table.take_rows(ids, kept, fill.values["marks"])


def _sweep(table: SparseTable, layout: JobLayout, number: int) -> None:
    """Forgets rows that another server has."""
    mine = (layout.owners == number).int()
    gone: list[Tensor] = []
    for ids, _ in table.chunks(_SWEPT):
        elsewhere = deal_ids(ids, mine, 2)[0]
        if len(elsewhere):
            gone.append(ids[elsewhere])
    if gone:
        table.forget(torch.cat(gone))
