"""`TableServer`: answers what trainers ask of one server's tables, each push counted once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from refluid.core.errors import EnforceNotMet
from refluid.pserver.applying import Applying, ServedTables
from refluid.pserver.figures import read_figures
from refluid.pserver.gathering import Gathers
from refluid.pserver.layout import JobLayout, described
from refluid.pserver.members import TrainerRoll
from refluid.pserver.messages import (
    Kind,
    MalformedMessage,
    MessageFlag,
    TableMessage,
    named,
    text_array,
)
from refluid.pserver.passes import end_pass_once
from refluid.pserver.push_messages import ROWS, read_push, wanted_of
from refluid.pserver.refusals import CallRefused, NotNow, OthersAreThere
from refluid.pserver.row_answers import NamedRows, answered_rows
from refluid.pserver.whole_tables import export_rows, import_rows

_Packed = TypeVar("_Packed")
_LOST = 1  # in the place of a sequence, in the log: the trainer's lease ended
# Calls of who must know which servers there are; the first ones wait while rows move.
_BOUND = frozenset(
    [Kind.PUSH, Kind.PULL, Kind.ROWS, Kind.EXPORT, Kind.IMPORT, Kind.GATHER, Kind.END_PASS]
)
_KNOWING = frozenset([Kind.HELLO, Kind.BEAT, Kind.LEAVE])


class TableServer:
    """Answers messages, several at a time. Its lock is held while tables are read or written.

    layout: which servers there are, and what is where. hold: for how many seconds a call waits for
    other trainers before it is answered that it must ask again. save: what SAVE calls, with the
    values it came with.
    """

    def __init__(
        self,
        tables: ServedTables,
        applying: Applying,
        members: TrainerRoll,
        layout: JobLayout,
        hold: float = 5.0,
        save: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.tables, self.applying, self.members = tables, applying, members
        self.layout, self.job = layout, layout.job
        self.hold, self.save = hold, save
        self.number = 0
        # frozen: servers come or go, rows move, trainers wait. joins: it isn't of the job yet.
        self.frozen = self.joins = False
        # What is told of a change that is under way, and goes on after a restart (`changing.py`).
        self.change: Callable[[], Any] = lambda: None
        self.restore: Callable[[JobLayout, Any], None] = lambda _layout, _change: None
        # Called with each message that changed something, in their order.
        self.accepted: Callable[[TableMessage], None] = lambda _message: None
        self.gathers = Gathers(members)
        self.changed = threading.Condition()
        self.pushes = self.pulled_rows = 0
        self._failure: Exception | None = None
        self.handlers: dict[Kind, Callable[[TableMessage], TableMessage]] = {
            Kind.HELLO: self._enter,
            Kind.PUSH: self._push,
            Kind.PULL: self._pull,
            Kind.ROWS: self._rows,
            Kind.BEAT: self._beat,
            Kind.LEAVE: self._leave,
            Kind.EXPORT: lambda message: export_rows(self.tables, message),
            Kind.IMPORT: self._import,
            Kind.SAVE: self._save,
            Kind.STATE: self._state,
            Kind.GATHER: self._gather,
            Kind.END_PASS: self._end_pass,
        }

    def answer(self, message: TableMessage) -> TableMessage:
        """What a message is answered, as `packed_answer` has it."""
        return self.packed_answer(message, TableMessage.made)

    def packed_answer(
        self, message: TableMessage, pack: Callable[[TableMessage], _Packed]
    ) -> _Packed:
        """What `pack` makes of the answer to a message, while tables are as they were answered.

        Raises CallRefused (NotEntered where the trainer must enter first), MalformedMessage, or
        EnforceNotMet for what doesn't fit the tables; nothing has changed then. Once an update has
        failed halfway, every call is answered by that.
        """
        handler = self.handlers.get(message.kind)
        if handler is None:
            raise MalformedMessage(f"a server isn't asked {message.kind.name}")
        unknown = message.kind == Kind.STATE and not message.job
        if message.job != self.job and not unknown:
            raise CallRefused("the caller is of another job: other program, servers or trainers")
        if self._failure is not None and message.kind != Kind.LEAVE:
            raise EnforceNotMet(f"an update failed on this server: {self._failure}")
        if message.kind not in _BOUND | _KNOWING:
            return pack(handler(message))
        with self.changed:
            self._require_layout(message)
            return pack(handler(message))

    def _require_layout(self, message: TableMessage) -> None:
        """NotNow while rows move, OthersAreThere where the caller doesn't know the servers."""
        if message.kind in _BOUND:
            self.changed.wait_for(lambda: not self.frozen, self.hold)
            if self.frozen:
                raise NotNow("servers come or go, and rows move")
        if message.epoch < self.layout.epoch:
            raise OthersAreThere(self.layout)
        if message.epoch > self.layout.epoch:
            raise NotNow("this server doesn't know yet that others came or went")

    def tick(self) -> None:
        """Looks whose lease ended; to be called every now and then."""
        with self.changed:
            for trainer in self.members.expire():
                session = self.members.known[trainer].session
                gone = TableMessage(Kind.LEAVE, trainer, session, _LOST, self.job)
                gone.epoch = self.layout.epoch
                self.accepted(gone)
                self.changed.notify_all()
                self._settle()

    @property
    def over(self) -> bool:
        """Whether all trainers came and are gone."""
        with self.changed:
            return self.members.over

    # -- trainers -------------------------------------------------------------

    def _enter(self, message: TableMessage) -> TableMessage:
        if message.sequence not in (0, self.number + 1):
            raise CallRefused(f"this is server {self.number}, not {message.sequence - 1}")
        known = self.members.known.get(message.trainer)
        if known is not None and known.session != message.session:
            self.applying.forget(message.trainer)
        member = self.members.enter(message.trainer, message.session)
        self.accepted(message)
        return TableMessage(Kind.ANSWER, sequence=member.marks.applied)

    def _beat(self, message: TableMessage) -> TableMessage:
        member = self.members.heard(message.trainer, message.session)
        if message.arrays:
            member.figures = read_figures(message.array("figures"))
        return TableMessage(Kind.ANSWER)

    def _leave(self, message: TableMessage) -> TableMessage:
        lost = message.sequence == _LOST
        self.members.leave(message.trainer, message.session, lost=lost)
        self.accepted(message)
        self.changed.notify_all()
        if self._failure is None:
            self._settle()
        return TableMessage(Kind.ANSWER)

    # -- pushes and pulls -----------------------------------------------------

    def _push(self, message: TableMessage) -> TableMessage:
        with self.changed:
            member = self.members.heard(message.trainer, message.session)
            if message.sequence < 1:
                raise MalformedMessage("pushes are numbered from 1")
            if not member.marks.reached(message.sequence):
                push = member.marks.wanting(read_push(message), message.sequence)
                self.tables.check(push)
                self.tables.require(name for name, _ in wanted_of(message))
                with self._updating():
                    self.applying.take(message.trainer, message.sequence, push)
                self._settle()
                self.accepted(message)
            return self._when_applied(message)

    def _pull(self, message: TableMessage) -> TableMessage:
        """Dense parameters: after the push of that sequence where one is named."""
        with self.changed:
            if message.trainer >= 0:
                self.members.heard(message.trainer, message.session)
            self.tables.require(name for name, _ in wanted_of(message))
            message.flags |= MessageFlag.WANTS_DENSE
            return self._when_applied(message)

    def _when_applied(self, message: TableMessage) -> TableMessage:
        trainer, sequence, known = message.trainer, message.sequence, self.members.known

        def waits() -> bool:
            return self.applying.holds(trainer) == sequence

        if sequence:
            epoch = self.layout.epoch
            self.changed.wait_for(lambda: self._failure or not waits(), self.hold)
            if self._failure is not None:
                raise EnforceNotMet(f"an update failed on this server: {self._failure}")
            if waits():
                return TableMessage(Kind.ANSWER, sequence=sequence, flags=MessageFlag.PENDING)
            if trainer not in known or not known[trainer].marks.reached(sequence):
                return TableMessage(Kind.ANSWER, sequence=sequence, flags=MessageFlag.AGAIN)
            if epoch != self.layout.epoch:
                raise OthersAreThere(self.layout)
        dense = named(self.tables.dense.copies() if message.flags & MessageFlag.WANTS_DENSE else {})
        rows = answered_rows(self.tables, wanted_of(message), ROWS, reads=trainer < 0)
        return self._answered(rows, sequence=sequence, arrays=dense)

    def _answered(self, rows: NamedRows, **others: Any) -> TableMessage:
        self.pulled_rows += sum(one.shape[0] for _, one in rows)
        return TableMessage(Kind.ANSWER, filled=rows, **others)

    @contextmanager
    def _updating(self) -> Iterator[None]:
        """Remembers what goes wrong within the block: the tables are no longer whole then."""
        try:
            yield
        except CallRefused:
            raise
        except Exception as error:
            self._failure = error
            self.changed.notify_all()
            raise

    def _settle(self) -> None:
        with self._updating():
            done = self.applying.settle(self.members.awaited)
        for trainer, sequence in done:
            self.members.known[trainer].marks.settle(sequence)
            self.pushes += 1
        if done:
            self.changed.notify_all()

    def _rows(self, message: TableMessage) -> TableMessage:
        reads = bool(message.flags & MessageFlag.READ_ONLY)
        with self.changed:
            if not reads:
                self.members.heard(message.trainer, message.session)
            return self._answered(answered_rows(self.tables, message.tensors(), reads=reads))

    def _gather(self, message: TableMessage) -> TableMessage:
        """The arrays of all trainers, named by their numbers, once each has brought its own."""
        sequence = message.sequence
        with self.changed:
            self.members.heard(message.trainer, message.session)
            if self.gathers.bring(sequence, message.trainer, message.array("value")):
                self.accepted(message)
                self.changed.notify_all()
            if not self.changed.wait_for(lambda: self.gathers.complete(sequence), self.hold):
                self.gathers.require_progress(sequence, self.applying.holds, self.pushes)
                return TableMessage(Kind.ANSWER, flags=MessageFlag.PENDING)
            return TableMessage(Kind.ANSWER, arrays=self.gathers.handed_out(sequence))

    # -- others ---------------------------------------------------------------

    def _import(self, message: TableMessage) -> TableMessage:
        self.members.heard(message.trainer, message.session)
        import_rows(self.tables, message)
        self.accepted(message)
        return TableMessage(Kind.ANSWER)

    def _end_pass(self, message: TableMessage) -> TableMessage:
        member = self.members.heard(message.trainer, message.session)
        return end_pass_once(self.tables.sparse, member, message, self.accepted)

    def _save(self, message: TableMessage) -> TableMessage:
        with self.changed:
            self.members.heard(message.trainer, message.session)
        if self.save is None:
            raise CallRefused("this server keeps no checkpoints")
        self.save(message.values())
        return TableMessage(Kind.ANSWER)

    def _state(self, _message: TableMessage) -> TableMessage:
        told = self.state() | {"about": described(self.layout), "change": self.change()}
        return TableMessage(Kind.ANSWER, arrays=[text_array(told)])

    def state(self) -> dict[str, Any]:
        """Figures: rows and bytes of tables, pushes, rounds, who trains and what they told."""
        with self.changed:
            sparse = self.tables.sparse.items()
            return {
                "rows": {name: table.rows for name, table in sparse},
                "bytes": {name: table.nbytes for name, table in sparse},
                "pushes": self.pushes,
                "rounds": self.applying.rounds,
                "pulled_rows": self.pulled_rows,
                "trainers": sorted(self.members.there),
                "figures": {str(n): one.figures for n, one in self.members.known.items()},
            }
