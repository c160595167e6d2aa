"""`TableClient`: a trainer's view of all servers: pushes, pulls, rows by ids, whole tables."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from torch import Tensor

from refluid.comm.communicator import Exchanged
from refluid.kernels.rows.dealing import AskedIds, DealtIds, KnownRows
from refluid.kernels.rows.ids import deal_ids
from refluid.pserver.calling import Take
from refluid.pserver.job_caller import JobCaller
from refluid.pserver.layout import JobLayout
from refluid.pserver.messages import (
    Kind,
    MessageFlag,
    TableMessage,
    text_array,
)
from refluid.pserver.parting import divided, rows_of_slice, whole_parameters
from refluid.pserver.push_answers import PushAnswers, put_rows
from refluid.pserver.push_messages import WANTED, steps_array
from refluid.pserver.wire import Keys

_LOGGER = logging.getLogger("refluid")
_EXPORTED_ROWS = 2**16
_Found = TypeVar("_Found")


class TableClient(JobCaller):
    """One trainer of a job, or who only reads (trainer -1). For several threads.

    `layout` changes as servers come and go: what was under way then is dealt and asked for anew.
    """

    def __init__(
        self,
        layout: JobLayout,
        trainer: int,
        patience: float = 180.0,
        beats: float = 0.0,
        keys: Keys | None = None,
    ) -> None:
        super().__init__(layout, trainer, patience, beats, keys)
        self.sequence = self._gathers = 0
        # Ids of this step and the next, by table, and for which servers they were dealt.
        self._latest: dict[str, deque[tuple[JobLayout, DealtIds]]] = {
            one.name: deque(maxlen=2) for one in layout.sparse
        }

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
        answered = self._pushed(gradients, steps, delta=delta, wants=wants)
        return self._assembled(answered.dense) if wants else {}

    def push_and_pull(
        self,
        gradients: Mapping[str, Exchanged],
        following: Mapping[str, Tensor],
        *,
        delta: bool = False,
    ) -> tuple[dict[str, Tensor], dict[str, KnownRows]]:
        """Pushes; once applied, gives dense parameters and the rows of ids, by their tables."""
        answered = self._pushed(gradients, 1, following, delta=delta, wants=True)
        return self._assembled(answered.dense), answered.rows

    def _pushed(
        self,
        gradients: Mapping[str, Exchanged],
        steps: int,
        following: Mapping[str, Tensor] | None = None,
        *,
        delta: bool,
        wants: bool,
    ) -> PushAnswers:
        """What the servers answered once they applied it."""
        with self._pushing, self.figures.timing("push"):
            self.sequence += 1
            told = {
                "sequence": self.sequence,
                "flags": MessageFlag.DELTA * delta | MessageFlag.WANTS_DENSE * wants,
            }

            def pushed(layout: JobLayout) -> PushAnswers:
                deal = partial(self.deal, layout)
                # First these, whose ids are known: of two kept they would make room for the others.
                parts = divided(layout, gradients, deal, delta=delta)
                wanted = {table: deal(table, ids) for table, ids in (following or {}).items()}
                answered = PushAnswers(self._room(wanted))
                messages = {}
                for server in layout.numbers:
                    filled = parts[server].filled
                    for table, dealt in wanted.items():
                        filled.append((WANTED + table, AskedIds(dealt, server)))
                    arrays = parts[server].arrays + steps_array(steps)
                    sent = {"arrays": arrays, "filled": filled, **told}
                    messages[server] = self.message(Kind.PUSH, layout, **sent)
                self._until_applied(messages, layout, answered.take)
                return answered

            return self.steadily(pushed)

    def _until_applied(
        self, pushed: Mapping[int, TableMessage], layout: JobLayout, take: Take
    ) -> None:
        """Has each server apply its push; `take` is called with all that they answer."""
        asked = dict(pushed)
        while asked:
            found = self.servers.ask(asked, take=take)
            asked = {}
            for server, answer in found.items():
                if answer.flags & MessageFlag.AGAIN:
                    asked[server] = pushed[server]
                elif answer.flags & MessageFlag.PENDING:
                    first = pushed[server]
                    wanted = [one for one in first.filled if one[0].startswith(WANTED)]
                    told = {"sequence": first.sequence, "flags": first.flags}
                    asked[server] = self.message(Kind.PULL, layout, filled=wanted, **told)

    def pull(self) -> dict[str, Tensor]:
        """All dense parameters as they are."""
        with self.figures.timing("pull"):
            return self._assembled(dict(one.tensors()) for one in self.ask_all(Kind.PULL).values())

    def _assembled(self, slices: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        return whole_parameters(self.layout.dense, slices)

    def deal(self, layout: JobLayout, table: str, ids: Tensor) -> DealtIds:
        """Ids of a step, dealt; the gradient's are mostly those that were looked up before."""
        given = ids.contiguous().numpy().reshape(-1)
        latest = self._latest[table]
        for known, found in tuple(latest):
            if known is layout and found.is_of(given):
                return found
        made = DealtIds(given, layout.owners, len(layout.servers))
        latest.append((layout, made))
        return made

    # -- tables ---------------------------------------------------------------

    def rows(self, table: str, ids: Tensor, *, read_only: bool = False) -> Tensor:
        """The rows of ids, int64 of any shape: (*ids.shape, width), each id asked for once."""
        return self.known_rows({table: ids}, read_only=read_only)[table].of(ids)

    def known_rows(
        self, ids: Mapping[str, Tensor], *, read_only: bool = False
    ) -> dict[str, KnownRows]:
        """The rows of a step's ids as they are now, by their tables."""
        flags = MessageFlag.READ_ONLY * read_only

        def known(layout: JobLayout) -> dict[str, KnownRows]:
            dealt = {table: self.deal(layout, table, wanted) for table, wanted in ids.items()}
            found = self._room(dealt)
            asked = {}
            for server in sorted({server for one in dealt.values() for server in one.servers()}):
                wanted = [(table, AskedIds(one, server)) for table, one in dealt.items()]
                asked[server] = self.message(Kind.ROWS, layout, flags=flags, filled=wanted)
            self.servers.ask(asked, take=partial(put_rows, found))
            return found

        with self.figures.timing("pull"):
            return self.steadily(known)

    def _room(self, dealt: Mapping[str, DealtIds]) -> dict[str, KnownRows]:
        """Room for the rows of dealt ids, by their tables."""
        specs = self.layout.tables
        return {
            table: KnownRows(one, specs[table].width, specs[table].dtype)
            for table, one in dealt.items()
        }

    def export(self, table: str) -> list[tuple[Tensor, dict[str, Tensor]]]:
        """All rows that servers have of a table: ids, and by name what is kept of each."""

        def exported(layout: JobLayout) -> list[tuple[Tensor, dict[str, Tensor]]]:
            return [part for server in layout.numbers for part in self._part(layout, server, table)]

        return self.steadily(exported)

    def export_of(
        self, server: int, table: str, start: int, end: int
    ) -> list[tuple[Tensor, dict[str, Tensor]]]:
        """The same of one server, from its `start`-th row to before the `end`-th."""
        return self.steadily(lambda layout: list(self._part(layout, server, table, start, end)))

    def _part(
        self, layout: JobLayout, server: int, table: str, start: int = 0, end: int = 2**62
    ) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        while start < end:
            rows = min(_EXPORTED_ROWS, end - start)
            told = text_array({"table": table, "start": start, "rows": rows})
            message = self.message(Kind.EXPORT, layout, arrays=[told])
            found = dict(self.servers.ask({server: message})[server].tensors())
            ids = found.pop("ids")
            if not len(ids):
                return
            yield ids, found
            start += len(ids)

    def set_rows(self, table: str, ids: Tensor, values: Mapping[str, Tensor]) -> None:
        """Sets rows of a table, and what is kept of them, on the servers that have them."""

        def put(layout: JobLayout) -> None:
            chosen, asked = deal_ids(ids.contiguous(), layout.owners, len(layout.servers)), {}
            for server, part in enumerate(chosen):
                if len(part):
                    arrays = [text_array({"table": table}), ("ids", ids[part].numpy())]
                    arrays += [(name, value[part].numpy()) for name, value in values.items()]
                    asked[server] = self.message(Kind.IMPORT, layout, arrays=arrays)
            self.servers.ask(asked)

        self.steadily(put)

    def set_dense(self, values: Mapping[str, Tensor]) -> None:
        """Sets dense parameters, by name."""

        def put(layout: JobLayout) -> None:
            arrays: list[list[Any]] = [[text_array({})] for _ in layout.servers]
            known = {one.name: one for one in layout.dense}
            for name, value in values.items():
                for part in known[name].slices:
                    own = rows_of_slice(value, known[name], part).contiguous()
                    arrays[part.server].append((part.name, own.numpy()))
            asked = {
                server: self.message(Kind.IMPORT, layout, arrays=own)
                for server, own in enumerate(arrays)
                if len(own) > 1
            }
            self.servers.ask(asked)

        self.steadily(put)

    def states(self) -> dict[int, dict[str, Tensor]]:
        """All variables of each server that are no rows."""
        answers = self.ask_all(Kind.EXPORT, arrays=[text_array({"table": None})])
        return {server: dict(answer.tensors()) for server, answer in answers.items()}

    def gather(self, value: Tensor) -> list[Tensor]:
        """The tensors of all trainers that are there, by number; all of them must call this."""
        self._gathers += 1
        told = {"sequence": self._gathers, "arrays": [("value", value.contiguous().numpy())]}

        def gathered(layout: JobLayout) -> TableMessage:
            asked = self.message(Kind.GATHER, layout, **told)
            return self.servers.ask({layout.keeper: asked})[layout.keeper]

        while True:
            answer = self.steadily(gathered)
            if not answer.flags & MessageFlag.PENDING:
                return [found for _, found in answer.tensors()]

    # -- others ---------------------------------------------------------------

    def save(self, values: Mapping[str, Any]) -> None:
        """Has each server write a checkpoint, as `values` say."""
        self.ask_all(Kind.SAVE, arrays=[text_array(values)])
