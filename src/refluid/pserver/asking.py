"""Asking a job's servers to let one come or go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.pserver.calling import Servers
from refluid.pserver.layout import JobLayout
from refluid.pserver.lookout import present_layout, servers_of_file
from refluid.pserver.membership import decider, wanted_layout
from refluid.pserver.messages import Kind, MessageFlag, TableMessage, text_array
from refluid.pserver.wire import keys_of_environment

_FINDS, _PATIENCE = 30.0, 120.0


def ask_for_change(
    servers: Sequence[str], wanted: Mapping[str, Any], token: int
) -> Mapping[str, Any]:
    """Has a job's servers change, and waits until they did: how many rows moved, in what time.

    servers: some of them. wanted: `add` an address, `remove` a number (with `lost` where it is
    gone), or `move` a number `to` an address. token: of this wish; the same one again is the same.
    EnforceNotMet where they refuse or it fails: then all is as before.
    """
    keys = keys_of_environment()
    layout = present_layout(servers, _FINDS)
    target = wanted_layout(layout, wanted)
    chosen = decider(layout, target)

    def silent(_number: int) -> None:
        asked.move([servers_of_file(layout)[chosen]])

    asked = Servers([layout.servers[chosen]], _PATIENCE, keys=keys, silent=silent)
    message = TableMessage(
        Kind.CONDUCT, session=token, job=layout.job, arrays=[text_array(dict(wanted))]
    )
    try:
        while True:
            answer = asked.ask({0: message})[0]
            if not answer.flags & MessageFlag.PENDING:
                return answer.values()
    finally:
        asked.close()


def number_of(layout: JobLayout, text: str) -> int:
    """The server that a number or an address means. EnforceNotMet for none."""
    if text in layout.servers:
        return layout.servers.index(text)
    if text.isdecimal() and int(text) in layout.numbers:
        return int(text)
    there = ", ".join(f"{one} ({layout.servers[one]})" for one in layout.numbers)
    raise EnforceNotMet(f"{text!r} is none of the servers: {there}")
