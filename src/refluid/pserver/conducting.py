"""The keeper's part when servers come or go: it has all of them change, or none.

Every trainer calls every server, so any of them could say which there are; the first of them
decides, because it is there as long as any is, needs no process beside it, and its checkpoint
remembers. Until it has made the change itself (COMMIT), whatever fails ends in ABORT; from then on
the others follow, now or when they ask it (`follow`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.pserver.calling import Servers
from refluid.pserver.changing import ChangeStep, ChangingServer, ServerChange
from refluid.pserver.layout import JobLayout, described, layout_of
from refluid.pserver.lookout import servers_of_file
from refluid.pserver.membership import decider, wanted_layout
from refluid.pserver.messages import Kind, MessageFlag, TableMessage, text_array
from refluid.pserver.refusals import CallRefused

_LOGGER = logging.getLogger("refluid")
_WAIT = 2.0
# How long a server may take to answer, and to write a checkpoint.
_PATIENCE, _WRITING = 60.0, 900.0
_SILENT = 3.0

Reach = Callable[[Sequence[str]], Servers]


class Conductor:
    """Changes which servers a job has, one change after the other.

    reach: opens connections to addresses. stand_in: gives the address of what answers for a server
    that is lost, made of its checkpoint, and what ends it.
    """

    def __init__(
        self,
        changing: ChangingServer,
        reach: Reach,
        stand_in: Callable[[int, JobLayout], tuple[str, Callable[[], None]]],
    ) -> None:
        self._changing, self._server = changing, changing.server
        self._reach, self._stand_in = reach, stand_in
        self._one, self._lock = threading.Lock(), threading.Lock()
        # What became of changes that were asked for, by their tokens.
        self._asked: dict[int, _Asked] = {}
        self._server.handlers[Kind.CONDUCT] = self.answer

    def answer(self, message: TableMessage) -> TableMessage:
        """Changes servers as a message asks, which is repeated until it is done."""
        server = self._server
        with self._lock:
            asked = self._asked.get(message.session)
            if asked is None:
                values, layout = message.values(), server.layout
                chosen = decider(layout, wanted_layout(layout, values))
                if server.number != chosen:
                    raise CallRefused(f"server {chosen} is asked for this change")
                asked = self._asked[message.session] = _Asked()
                does = threading.Thread(
                    target=self._conduct, args=(message.session, values, asked), daemon=True
                )
                does.start()
        if not asked.ended.wait(_WAIT):
            return TableMessage(Kind.ANSWER, flags=MessageFlag.PENDING, arrays=[text_array({})])
        if asked.error is not None:
            raise asked.error
        return TableMessage(Kind.ANSWER, arrays=[text_array(asked.told)])

    def _conduct(self, token: int, values: Mapping[str, Any], asked: _Asked) -> None:
        try:
            with self._one:
                asked.told = self._change(token, values)
        except Exception as error:
            known = isinstance(error, EnforceNotMet | CallRefused)
            asked.error = error if known else EnforceNotMet(f"the change failed: {error}")
            _LOGGER.warning("servers stay as they are: %s", error)
        finally:
            asked.ended.set()

    def _change(self, token: int, values: Mapping[str, Any]) -> dict[str, Any]:
        begun, former = time.monotonic(), self._server.layout
        target = wanted_layout(former, values)
        where = [
            new or old for new, old in zip(target.servers, _padded(former, target), strict=True)
        ]
        ends: list[Callable[[], None]] = []
        if values.get("lost"):
            number = int(values["remove"])
            where[number], end = self._stand_in(number, former)
            ends.append(end)
        servers = self._reach(where)
        numbers = sorted({*former.numbers, *target.numbers})
        try:
            found = self._through(servers, numbers, token, former, target)
        finally:
            servers.close()
            for end in ends:
                end()
        seconds = time.monotonic() - begun
        _LOGGER.info(
            "servers are %s now: %d of %d rows moved in %.1f s",
            ", ".join(target.servers[one] for one in target.numbers),
            found["moved"],
            found["rows"],
            seconds,
        )
        return {**found, "seconds": seconds, "epoch": target.epoch}

    def _through(
        self,
        servers: Servers,
        numbers: Sequence[int],
        token: int,
        former: JobLayout,
        target: JobLayout,
    ) -> dict[str, int]:
        own = self._server.number

        def ask(
            step: ChangeStep, who: Sequence[int], patience: float = _PATIENCE, **told: Any
        ) -> dict[int, TableMessage]:
            about = {"step": step, **told}
            asked = {
                one: TableMessage(
                    Kind.CHANGE,
                    session=token,
                    job=former.job,
                    arrays=[text_array({**about, "number": one})],
                )
                for one in who
            }
            return servers.ask(asked, patience)

        try:
            ask(ChangeStep.FREEZE, numbers, layout=described(target), decider=own)
            answers, left = dict[int, TableMessage](), list(numbers)
            while left:
                found = ask(ChangeStep.MOVE, left)
                left = [one for one in left if found[one].flags & MessageFlag.PENDING]
                answers |= found
            ask(ChangeStep.PREPARE, numbers, _WRITING)
        except BaseException:
            for one in sorted(numbers, key=lambda number: number != own):
                with suppress(EnforceNotMet):  # it asks this one when it can
                    ask(ChangeStep.ABORT, [one], _SILENT)
            raise
        with self._server.changed:
            change = self._changing.change
            if change is None or change.token != token:
                raise EnforceNotMet("another change took the place of this one")
        told = [answer.values() for answer in answers.values()]
        others = [one for one in numbers if one != own]
        ask(ChangeStep.COMMIT, [own])
        for one in others:
            with suppress(EnforceNotMet):
                ask(ChangeStep.COMMIT, [one], _SILENT)
        return {name: sum(one.get(name, 0) for one in told) for name in ("rows", "moved", "bytes")}

    # -- who hears nothing ----------------------------------------------------

    def follow(self) -> None:
        """Asks the keeper how a change ended of which nothing was heard; to be called often."""
        change = self._changing.change
        if change is None or time.monotonic() - change.heard < _SILENT or self._one.locked():
            return
        with suppress(EnforceNotMet, KeyError):
            heard = change.heard
            self._end_as(change, heard, self._keeper_says(change))

    def _keeper_says(self, change: ServerChange) -> Mapping[str, Any]:
        """What the one who decides says of itself."""
        if change.decider == self._server.number:  # begun anew, it has decided nothing
            return {"change": None, "about": described(self._server.layout)}
        address = servers_of_file(change.target)[change.decider]
        servers = self._reach([address])
        try:
            asked = TableMessage(Kind.STATE, job=0)
            return servers.ask({0: asked}, patience=1.0)[0].values()
        finally:
            servers.close()

    def _end_as(self, change: ServerChange, heard: float, told: Mapping[str, Any]) -> None:
        with self._server.changed:
            if self._changing.change is not change or change.heard != heard:
                return  # who decides has begun it anew, or goes on
            if _token(told["change"]) == change.token:
                return
            ended = self._has(layout_of(told["about"]), change.target)
            (self._changing.commit if ended else self._changing.abort)(change)

    def _has(self, layout: JobLayout, target: JobLayout) -> bool:
        """Whether a job that is so now went that way. Of two that wish to come, one after the
        other, the second may have taken the place of the first."""
        number = self._server.number
        place = slice(number, number + 1)
        mine = not self._server.joins or layout.servers[place] == target.servers[place]
        return mine and layout.epoch >= target.epoch


class _Asked:
    """A change that was asked for."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.told: dict[str, Any] = {}
        self.error: Exception | None = None


def _token(told: Mapping[str, Any] | None) -> int | None:
    return None if told is None else int(told["token"])


def _padded(layout: JobLayout, other: JobLayout) -> list[str]:
    return [*layout.servers, *[""] * (len(other.servers) - len(layout.servers))]
