"""`TableClient`: a trainer's view of all servers: pushes, pulls, rows by ids, whole tables."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from refluid.comm.communicator import Exchanged
from refluid.core.errors import EnforceNotMet
from refluid.kernels.rows.dealing import DealtIds, KnownRows
from refluid.kernels.rows.ids import deal_ids
from refluid.pserver.applying import Push
from refluid.pserver.calling import Servers
from refluid.pserver.figures import FigureBook
from refluid.pserver.layout import JobLayout
from refluid.pserver.messages import Kind, MessageFlag, TableMessage, text_array
from refluid.pserver.parting import divided, rows_of_slice, whole_parameters
from refluid.pserver.push_messages import ROWS, WANTED, write_push
from refluid.pserver.wire import Keys

_LOGGER = logging.getLogger("refluid")
_EXPORTED_ROWS = 2**16


class TableClient:
    """One trainer of a job, or who only reads (trainer -1). For several threads.

    patience: for how many seconds servers that don't answer are asked. beats: every how many
    seconds they hear that this trainer lives, unless 0.
    """

    def __init__(
        self,
        layout: JobLayout,
        trainer: int,
        patience: float = 180.0,
        beats: float = 0.0,
        keys: Keys | None = None,
    ) -> None:
        self.layout, self.trainer = layout, trainer
        self.session = secrets.randbits(63) | 1
        self.sequence = self._gathers = 0
        self.servers = Servers(
            layout.servers, patience, keys=keys, enter=self._enter_one if trainer >= 0 else None
        )
        self._pushing, self.figures = threading.Lock(), FigureBook()
        self._ended = threading.Event()
        self._beats = beats
        self._heart: threading.Thread | None = None
        self._tables = {one.name: one for one in layout.sparse}
        # Ids of this step and the next, by table.
        self._latest: dict[str, deque[DealtIds]] = {one: deque(maxlen=2) for one in self._tables}

    # -- coming and going -----------------------------------------------------

    def enter(self) -> None:
        """Tells all servers that this trainer begins. ServerUnreachable where one isn't there."""
        numbers = range(len(self.layout.servers))
        self.servers.ask({server: self._hello(server) for server in numbers})
        if self._beats and self._heart is None:
            self._heart = threading.Thread(target=self._beat, name="refluid heartbeat", daemon=True)
            self._heart.start()

    def leave(self, patience: float = 5.0) -> None:
        """Tells all servers that this trainer ends, and closes the connections."""
        if self._ended.is_set():
            return
        self._ended.set()
        with self._pushing:
            if self.trainer >= 0:
                try:
                    self._ask_all(Kind.LEAVE, patience=patience)
                except EnforceNotMet as error:
                    _LOGGER.info(
                        "a server wasn't told that trainer %d ends: %s", self.trainer, error
                    )
            self.servers.close()

    def _beat(self) -> None:
        while not self._ended.wait(self._beats):
            try:
                self._ask_all(Kind.BEAT, patience=self._beats, arrays=[self.figures.array()])
            except (EnforceNotMet, ValueError) as error:  # a channel may be closed meanwhile
                _LOGGER.debug("heartbeat: %s", error)

    def _enter_one(self, server: int) -> None:
        self.servers.ask({server: self._hello(server)}, patience=1.0)

    def _hello(self, server: int) -> TableMessage:
        """Says which of the servers it is to be, counted from 1."""
        return self._message(Kind.HELLO, sequence=server + 1)

    def _message(self, kind: Kind, **others: Any) -> TableMessage:
        return TableMessage(kind, self.trainer, self.session, job=self.layout.job, **others)

    def _ask_all(self, kind: Kind, patience: float | None = None, **others: Any) -> Any:
        numbers = range(len(self.layout.servers))
        asked = {server: self._message(kind, **others) for server in numbers}
        return self.servers.ask(asked, patience)

    # -- dense parameters -----------------------------------------------------

    def push(
        self,
        gradients: Mapping[str, Exchanged],
        steps: int = 1,
        *,
        delta: bool = False,
        wants: bool = False,
    ) -> dict[str, Tensor]:
        """Pushes gradients by their names; once applied, gives dense parameters where `wants`.

        delta: what to add to parameters instead, by the parameters' names. Raises
        ServerUnreachable where a server doesn't answer.
        """
        answers = self._pushed(gradients, steps, delta=delta, wants=wants)
        return self._assembled(answers) if wants else {}

    def push_and_pull(
        self,
        gradients: Mapping[str, Exchanged],
        following: Mapping[str, Tensor],
        *,
        delta: bool = False,
    ) -> tuple[dict[str, Tensor], dict[str, KnownRows]]:
        """Pushes; once applied, gives dense parameters and the rows of ids, by their tables."""
        wanted = {table: self.deal(table, ids) for table, ids in following.items()}
        answers = self._pushed(gradients, delta=delta, wants=True, wanted=wanted)
        rows = {}
        for table, dealt in wanted.items():
            held = {server: dict(answers[server].tensors()) for server in dealt.servers()}
            rows[table] = KnownRows(dealt, {one: held[one][ROWS + table] for one in held})
        return self._assembled(answers), rows

    def _pushed(
        self,
        gradients: Mapping[str, Exchanged],
        steps: int = 1,
        *,
        delta: bool = False,
        wants: bool = False,
        wanted: Mapping[str, DealtIds] | None = None,
    ) -> dict[int, TableMessage]:
        parts = divided(self.layout, gradients, self.deal, delta=delta)
        with self._pushing, self.figures.timing("push"):
            self.sequence += 1
            flags = MessageFlag.DELTA * delta | MessageFlag.WANTS_DENSE * wants
            pushed = {}
            for server, part in enumerate(parts):
                arrays = list(write_push(Push(part.dense, part.sparse, steps)))
                for table, dealt in (wanted or {}).items():
                    arrays.append((WANTED + table, dealt.part(server, dealt.unique).numpy()))
                pushed[server] = self._message(
                    Kind.PUSH, sequence=self.sequence, flags=flags, arrays=arrays
                )
            return self._until_applied(pushed)

    def _until_applied(self, pushed: Mapping[int, TableMessage]) -> dict[int, TableMessage]:
        """The answers once each server has applied its push."""
        answers: dict[int, TableMessage] = {}
        asked = dict(pushed)
        while asked:
            found = self.servers.ask(asked)
            asked = {}
            for server, answer in found.items():
                if answer.flags & MessageFlag.AGAIN:
                    asked[server] = pushed[server]
                elif answer.flags & MessageFlag.PENDING:
                    first = pushed[server]
                    wanted = [one for one in first.arrays if one[0].startswith(WANTED)]
                    asked[server] = self._message(
                        Kind.PULL, sequence=first.sequence, flags=first.flags, arrays=wanted
                    )
                else:
                    answers[server] = answer
        return answers

    def pull(self) -> dict[str, Tensor]:
        """All dense parameters as they are."""
        with self.figures.timing("pull"):
            return self._assembled(self._ask_all(Kind.PULL))

    def _assembled(self, answers: Mapping[int, TableMessage]) -> dict[str, Tensor]:
        return whole_parameters(self.layout.dense, [one.tensors() for one in answers.values()])

    def deal(self, table: str, ids: Tensor) -> DealtIds:
        """Ids of a step, dealt; the gradient's are mostly those that were looked up before."""
        ids = ids.reshape(-1).contiguous()
        latest = self._latest[table]
        for found in tuple(latest):
            if found.is_of(ids):
                return found
        latest.append(DealtIds(ids, self.layout.owners, len(self.layout.servers)))
        return latest[-1]

    # -- tables ---------------------------------------------------------------

    def rows(self, table: str, ids: Tensor, *, read_only: bool = False) -> Tensor:
        """The rows of ids, int64 of any shape: (*ids.shape, width), each id asked for once."""
        dealt = self.deal(table, ids)
        known = self.rows_of(table, dealt, read_only=read_only)
        return known.of(ids)

    def rows_of(self, table: str, dealt: DealtIds, *, read_only: bool = False) -> KnownRows:
        """The rows of a step's ids as they are now."""
        flags = MessageFlag.READ_ONLY * read_only
        asked = {
            server: self._message(
                Kind.ROWS, flags=flags, arrays=[(table, dealt.part(server, dealt.unique).numpy())]
            )
            for server in dealt.servers()
        }
        with self.figures.timing("pull"):
            answers = self.servers.ask(asked)
        parts = {server: next(answer.tensors())[1] for server, answer in answers.items()}
        return KnownRows(dealt, parts)

    def export(self, table: str) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """All rows that servers have of a table: ids, and by name what is kept of each."""
        for server in range(len(self.layout.servers)):
            start = 0
            while True:
                told = text_array({"table": table, "start": start, "rows": _EXPORTED_ROWS})
                message = self._message(Kind.EXPORT, arrays=[told])
                found = dict(self.servers.ask({server: message})[server].tensors())
                ids = found.pop("ids")
                if not len(ids):
                    break
                yield ids, found
                start += len(ids)

    def set_rows(self, table: str, ids: Tensor, values: Mapping[str, Tensor]) -> None:
        """Sets rows of a table, and what is kept of them, on the servers that have them."""
        chosen = deal_ids(ids.contiguous(), self.layout.owners, len(self.layout.servers))
        asked = {}
        for server, part in enumerate(chosen):
            if len(part):
                arrays = [text_array({"table": table}), ("ids", ids[part].numpy())]
                arrays += [(name, value[part].numpy()) for name, value in values.items()]
                asked[server] = self._message(Kind.IMPORT, arrays=arrays)
        self.servers.ask(asked)

    def set_dense(self, values: Mapping[str, Tensor]) -> None:
        """Sets dense parameters, by name."""
        arrays: list[list[Any]] = [[text_array({})] for _ in self.layout.servers]
        known = {one.name: one for one in self.layout.dense}
        for name, value in values.items():
            for part in known[name].slices:
                own = rows_of_slice(value, known[name], part).contiguous()
                arrays[part.server].append((part.name, own.numpy()))
        self.servers.ask(
            {
                server: self._message(Kind.IMPORT, arrays=own)
                for server, own in enumerate(arrays)
                if len(own) > 1
            }
        )

    def states(self) -> list[dict[str, Tensor]]:
        """All variables of each server that are no rows."""
        answers = self._ask_all(Kind.EXPORT, arrays=[text_array({"table": None})])
        return [dict(answers[server].tensors()) for server in range(len(self.layout.servers))]

    def gather(self, value: Tensor) -> list[Tensor]:
        """The tensors of all trainers that are there, by number; all of them must call this."""
        self._gathers += 1
        arrays = [("value", value.contiguous().numpy())]
        asked = {0: self._message(Kind.GATHER, sequence=self._gathers, arrays=arrays)}
        while True:
            answer = self.servers.ask(asked)[0]
            if not answer.flags & MessageFlag.PENDING:
                return [found for _, found in answer.tensors()]

    # -- others ---------------------------------------------------------------

    def save(self, values: Mapping[str, Any]) -> None:
        """Has each server write a checkpoint, as `values` say."""
        self._ask_all(Kind.SAVE, arrays=[text_array(values)])

    def state(self) -> list[dict[str, Any]]:
        """Figures of each server."""
        answers = self._ask_all(Kind.STATE)
        return [answers[server].values() for server in range(len(self.layout.servers))]
