"""`JobCaller`: who calls all servers of a job, and goes along as they come and go."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from refluid.core.errors import EnforceNotMet
from refluid.core.whole_threads import interrupts_later
from refluid.pserver.calling import LayoutChanged, ServerGone, Servers
from refluid.pserver.figures import FigureBook
from refluid.pserver.layout import JobLayout
from refluid.pserver.lookout import LayoutLookout
from refluid.pserver.messages import Kind, TableMessage
from refluid.pserver.wire import Keys, most_bytes

_LOGGER = logging.getLogger("refluid")
_Found = TypeVar("_Found")


class JobCaller:
    """One trainer of a job, or who only reads (trainer -1). For several threads.

    patience: for how many seconds servers that don't answer are asked. beats: every how many
    seconds they hear that this trainer lives, unless 0. `layout` changes as servers come and go:
    what was under way then is dealt and asked for anew.
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
        enter = self._enter_one if trainer >= 0 else None
        self._look = LayoutLookout(self)
        most, look = most_bytes(layout.dense_bytes), self._look
        self.servers = Servers(
            layout.servers, patience, keys=keys, enter=enter, silent=look, most=most
        )
        self._pushing, self.figures = threading.Lock(), FigureBook()
        self._ended, self._adopting = threading.Event(), threading.Lock()
        self._beats, self._left = beats, False
        self._heart: threading.Thread | None = None

    def adopt(self, layout: JobLayout) -> None:
        """Servers came or went."""
        with self._adopting:
            if layout.epoch > self.layout.epoch:
                _LOGGER.info("the servers are %s", ", ".join(filter(None, layout.servers)))
                self.servers.move(layout.servers)
                self.layout = layout

    def follow(self, layout: JobLayout, addresses: tuple[str, ...]) -> None:
        """The servers of a layout are at other addresses, unless it isn't the present one."""
        with self._adopting:
            if self.layout is layout:
                self.servers.move(addresses)
                self.layout = replace(layout, servers=addresses)

    def steadily(self, does: Callable[[JobLayout], _Found]) -> _Found:
        """What `does` gives by the present layout; begun anew where that changes meanwhile."""
        while True:
            layout = self.layout
            try:
                return does(layout)
            except LayoutChanged as change:
                self.adopt(change.layout)
            except ServerGone:
                with self._adopting:
                    if self.layout is layout:
                        raise

    # -- coming and going -----------------------------------------------------

    def enter(self) -> None:
        """Tells all servers that this trainer begins. ServerUnreachable where one isn't there."""
        self.steadily(self._enter_all)
        if self._beats and self._heart is None:
            self._heart = threading.Thread(target=self._beat, name="refluid heartbeat", daemon=True)
            self._heart.start()

    def leave(self, patience: float = 5.0) -> None:
        """Tells all servers that this trainer ends, and closes the connections."""
        if self._left:
            return
        with interrupts_later():  # halfway the event would keep its lock
            self._ended.set()
        with self._pushing:
            if self.trainer >= 0:
                try:
                    self.ask_all(Kind.LEAVE, patience=patience)
                except EnforceNotMet as error:
                    _LOGGER.info(
                        "a server wasn't told that trainer %d ends: %s", self.trainer, error
                    )
            self.servers.close()
        self._left = True  # only now: who was interrupted tells them as it is called again

    def _beat(self) -> None:
        while not self._ended.wait(self._beats):
            try:
                self.ask_all(Kind.BEAT, patience=self._beats, arrays=[self.figures.array()])
            except (EnforceNotMet, ValueError) as error:  # a channel may be closed meanwhile
                _LOGGER.debug("heartbeat: %s", error)

    def _enter_all(self, layout: JobLayout) -> None:
        self.servers.ask({one: self._hello(one, layout) for one in layout.numbers})

    def _enter_one(self, server: int) -> None:
        self.servers.ask({server: self._hello(server, self.layout)}, patience=1.0)

    def _hello(self, server: int, layout: JobLayout) -> TableMessage:
        """Says which of the servers it is to be, counted from 1."""
        return self.message(Kind.HELLO, layout, sequence=server + 1)

    def message(self, kind: Kind, layout: JobLayout, **others: Any) -> TableMessage:
        """A message of this caller, who believes in a layout."""
        own = self.trainer, self.session
        return TableMessage(kind, *own, job=layout.job, epoch=layout.epoch, **others)

    def ask_all(
        self, kind: Kind, patience: float | None = None, **others: Any
    ) -> dict[int, TableMessage]:
        """The answers of all servers, by number, to the same call."""

        def asked(layout: JobLayout) -> dict[int, TableMessage]:
            messages = {one: self.message(kind, layout, **others) for one in layout.numbers}
            return self.servers.ask(messages, patience)

        return self.steadily(asked)

    def state(self) -> list[dict[str, Any]]:
        """Figures of each server that is there, in the order of their numbers."""
        return [answer.values() for _, answer in sorted(self.ask_all(Kind.STATE).items())]
