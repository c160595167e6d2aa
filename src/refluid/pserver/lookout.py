"""Finding out which servers a job has: from any of them, and where they are from a file."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from refluid.core.errors import EnforceNotMet
from refluid.core.flags import environment_str
from refluid.pserver.calling import LayoutChanged, Servers, ServerUnreachable
from refluid.pserver.layout import JobLayout, layout_of
from refluid.pserver.messages import Kind, TableMessage
from refluid.pserver.wire import keys_of_environment

_READER = -1
_EVERY, _ONE = 1.0, 0.5
# In the environment: a file with the address of each server in a line, written anew where one is
# started elsewhere.
_FILE = "REFLUID_SERVER_ADDRESSES"


class FollowingCaller(Protocol):
    """Who calls servers, and goes along as they come and go."""

    layout: JobLayout
    servers: Servers

    def follow(self, layout: JobLayout, addresses: tuple[str, ...]) -> None:
        """Servers of a layout are at other addresses."""


class LayoutLookout:
    """Called with the number of a server that doesn't answer: raises LayoutChanged where it moved.

    Others are asked, and the file of addresses is looked at, at most once in a second.
    """

    def __init__(self, client: FollowingCaller) -> None:
        self._client, self._last = client, 0.0
        self._looking = threading.Lock()

    def __call__(self, server: int) -> None:
        now = time.monotonic()
        if now - self._last < _EVERY or not self._looking.acquire(blocking=False):
            return
        try:
            self._last = now
            self._follow_file()
            self._ask_others(server)
        finally:
            self._looking.release()

    def _follow_file(self) -> None:
        layout = self._client.layout
        found = servers_of_file(layout)
        if found != layout.servers:
            self._client.follow(layout, found)
            raise LayoutChanged(self._client.layout)

    def _ask_others(self, server: int) -> None:
        layout, client = self._client.layout, self._client
        for one in layout.numbers:
            if one == server:
                continue
            asked = TableMessage(Kind.STATE, _READER)
            try:
                told = client.servers.ask({one: asked}, patience=_ONE)[one].values()
            except EnforceNotMet:
                continue
            found = layout_of(told["about"])
            if found.epoch > layout.epoch:
                raise LayoutChanged(found)
            return


def servers_of_file(layout: JobLayout) -> tuple[str, ...]:
    """Where servers are: by the file that the environment names; else as the layout says."""
    path = environment_str(_FILE)
    if path is None or not Path(path).is_file():
        return layout.servers
    lines = [one.strip() for one in Path(path).read_text().splitlines()]
    told = lines[: len(layout.servers)]
    return tuple(
        (told[number] or own) if own and number < len(told) else own
        for number, own in enumerate(layout.servers)
    )


def present_layout(servers: Sequence[str], patience: float) -> JobLayout:
    """What the first of these servers that answers says of its job.

    Raises ServerUnreachable where none does, EnforceNotMet where it is none of refluid's.
    """
    known = [one for one in servers if one]
    if not known:
        raise EnforceNotMet("a reader needs the address of a server: host:port")
    until, failure = time.monotonic() + patience, None
    asked = Servers(known, patience, one_try=min(5.0, patience), keys=keys_of_environment())
    try:
        while failure is None or time.monotonic() < until:
            for number in range(len(known)):
                try:
                    return _told_layout(asked, number, min(_EVERY, patience))
                except ServerUnreachable as error:
                    failure = error
    finally:
        asked.close()
    raise failure


def _told_layout(servers: Servers, number: int, patience: float) -> JobLayout:
    message = TableMessage(Kind.STATE, _READER)
    told = servers.ask({number: message}, patience)[number].values()
    try:
        return layout_of(told["about"])
    except (KeyError, TypeError, ValueError) as error:
        raise EnforceNotMet(
            f"{servers.addresses[number]} doesn't say what its job is: {error}"
        ) from error
