"""What a server answers calls with that it won't do."""

from __future__ import annotations

from refluid.core.errors import EnforceNotMet
from refluid.pserver.layout import JobLayout, described
from refluid.pserver.messages import MalformedMessage, Remedy, TableMessage, refusal


class CallRefused(Exception):
    """A call that a server won't answer; the text says why."""


class NotEntered(CallRefused):
    """The call of a trainer that must enter first."""


class NotNow(CallRefused):
    """A call to be made again a little later."""


class OthersAreThere(CallRefused):
    """The call of who believes in other servers than there are. layout: what is where now."""

    def __init__(self, layout: JobLayout) -> None:
        there = ", ".join(layout.servers[number] for number in layout.numbers)
        super().__init__(f"servers came or went: there are {there}")
        self.layout = layout


_MEANINGS: list[tuple[type[Exception], Remedy]] = [
    (NotEntered, Remedy.ENTER),
    (NotNow, Remedy.AGAIN),
    (OthersAreThere, Remedy.LAYOUT),
    (CallRefused, Remedy.NEVER),
    (MalformedMessage, Remedy.NEVER),
    (EnforceNotMet, Remedy.NEVER),
]


def is_refusal(error: Exception) -> bool:
    """Whether an error says that a call is refused; others are faults of the server."""
    return isinstance(error, tuple(kind for kind, _ in _MEANINGS))


def refused(error: Exception) -> TableMessage:
    """The answer that tells a caller of an error."""
    meaning = next((one for kind, one in _MEANINGS if isinstance(error, kind)), Remedy.NEVER)
    more = {"layout": described(error.layout)} if isinstance(error, OthersAreThere) else {}
    return refusal(meaning, str(error), **more)
