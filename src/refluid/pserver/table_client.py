"""`TableClient`: a trainer's view of all servers: pushes, pulls, rows by ids, whole tables."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.kernels.rows.dealing import DealtIds
from refluid.kernels.rows.ids import deal_ids
from refluid.pserver.applying import Push
from refluid.pserver.calling import Servers
from refluid.pserver.figures import FigureBook
from refluid.pserver.layout import DenseParameter, JobLayout, SparseParameter
from refluid.pserver.messages import Kind, MessageFlag, TableMessage, text_array
from refluid.pserver.push_messages import write_push
from refluid.pserver.wire import Keys

_LOGGER = logging.getLogger("refluid")
_EXPORTED_ROWS = 2**16
NamedGradients = Mapping[str, Tensor | SelectedRows]


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
        self._latest: dict[str, DealtIds] = {}

    # -- coming and going -----------------------------------------------------

    def enter(self) -> None:
        """Tells all servers that this trainer begins. ServerUnreachable where one isn't there."""
        self._ask_all(Kind.HELLO)
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
        self.servers.ask({server: self._message(Kind.HELLO)}, patience=1.0)

    def _message(self, kind: Kind, **others: Any) -> TableMessage:
        return TableMessage(kind, self.trainer, self.session, job=self.layout.job, **others)

    def _ask_all(self, kind: Kind, patience: float | None = None, **others: Any) -> Any:
        numbers = range(len(self.layout.servers))
        asked = {server: self._message(kind, **others) for server in numbers}
        return self.servers.ask(asked, patience)

    # -- dense parameters -----------------------------------------------------

    def push(
        self, gradients: NamedGradients, steps: int = 1, *, delta: bool = False, wants: bool = False
    ) -> dict[str, Tensor]:
        """Pushes gradients by their names; once applied, gives dense parameters where `wants`.

        delta: what to add to parameters instead, by the parameters' names. Raises
        ServerUnreachable where a server doesn't answer.
        """
        parts = self._divided(gradients, delta=delta)
        with self._pushing, self.figures.timing("push"):
            self.sequence += 1
            flags = MessageFlag.DELTA * delta | MessageFlag.WANTS_DENSE * wants
            pushed = {}
            for server, part in enumerate(parts):
                arrays = list(write_push(Push(part.dense, part.sparse, steps)))
                pushed[server] = self._message(
                    Kind.PUSH, sequence=self.sequence, flags=flags, arrays=arrays
                )
            answers = self._until_applied(pushed)
        return self._assembled(answers) if wants else {}

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
                    asked[server] = self._message(
                        Kind.PULL, sequence=first.sequence, flags=first.flags
                    )
                else:
                    answers[server] = answer
        return answers

    def pull(self) -> dict[str, Tensor]:
        """All dense parameters as they are."""
        with self.figures.timing("pull"):
            return self._assembled(self._ask_all(Kind.PULL))

    def _assembled(self, answers: Mapping[int, TableMessage]) -> dict[str, Tensor]:
        found = {name: value for one in answers.values() for name, value in one.tensors()}
        return {one.name: _whole(one, found) for one in self.layout.dense}

    def _divided(self, gradients: NamedGradients, *, delta: bool) -> list[Push]:
        """What each server is sent of the gradients."""
        parts: list[tuple[dict[str, Tensor], dict[str, Any]]] = [
            ({}, {}) for _ in self.layout.servers
        ]
        dense, sparse = self.layout.dense_of, self.layout.sparse_of
        if delta:
            dense = {one.name: one for one in self.layout.dense}
            sparse = self._tables
        for name, value in gradients.items():
            if name in dense:
                value = value.to_dense() if isinstance(value, SelectedRows) else value
                for part in dense[name].slices:
                    parts[part.server][0][part.name] = _rows_of(value, dense[name], part)
            elif name in sparse:
                for server, rows in self._dealt(sparse[name], value):
                    parts[server][1][sparse[name].name] = rows
            else:
                raise EnforceNotMet(f"no server has a parameter for {name!r}")
        return [Push(*one) for one in parts]

    def _dealt(
        self, table: SparseParameter, value: Any
    ) -> Iterator[tuple[int, tuple[Tensor, Tensor]]]:
        if not isinstance(value, SelectedRows):
            raise EnforceNotMet(f"the gradient of table {table.name} must be rows, with is_sparse")
        rows = value.value.reshape(len(value.index), -1)
        dealt = self._deal(table.name, value.index.contiguous())
        sums = dealt.sums(rows)
        for server in dealt.servers():
            yield server, (dealt.part(server, dealt.unique), dealt.part(server, sums))

    def _deal(self, table: str, ids: Tensor) -> DealtIds:
        """Ids of a step, dealt; the gradient's are mostly those that were looked up before."""
        latest = self._latest.get(table)
        if latest is None or not latest.is_of(ids):
            servers = len(self.layout.servers)
            latest = self._latest[table] = DealtIds(ids, self.layout.owners, servers)
        return latest

    # -- tables ---------------------------------------------------------------

    def rows(self, table: str, ids: Tensor, *, read_only: bool = False) -> Tensor:
        """The rows of ids, int64 of any shape: (*ids.shape, width), each id asked for once."""
        dealt = self._deal(table, ids.reshape(-1).contiguous())
        flags = MessageFlag.READ_ONLY * read_only
        asked = {
            server: self._message(
                Kind.ROWS, flags=flags, arrays=[(table, dealt.part(server, dealt.unique).numpy())]
            )
            for server in dealt.servers() or (0,)
        }
        with self.figures.timing("pull"):
            answers = self.servers.ask(asked)
        parts = {server: next(answer.tensors())[1] for server, answer in answers.items()}
        rows = dealt.spread(parts)
        return rows.view(*ids.shape, rows.shape[1])

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
                own = _rows_of(value, known[name], part).contiguous()
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


def _rows_of(value: Tensor, param: DenseParameter, part: Any) -> Tensor:
    if value.shape != param.shape:
        raise EnforceNotMet(f"{param.name} is {param.shape}, and its gradient {tuple(value.shape)}")
    return value if len(param.slices) == 1 else value[part.begin : part.end]


def _whole(param: DenseParameter, found: Mapping[str, Tensor]) -> Tensor:
    missing = [one.name for one in param.slices if one.name not in found]
    if missing:
        raise EnforceNotMet(f"no server has {missing[0]}, a slice of parameter {param.name}")
    parts = [found[one.name] for one in param.slices]
    return parts[0] if len(parts) == 1 else torch.cat(parts)
