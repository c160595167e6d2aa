"""What goes wrong in readers. All are `EnforceNotMet`, as scripts expect of Fluid."""

from __future__ import annotations

from refluid.core.errors import EnforceNotMet


class ReaderFailed(EnforceNotMet):
    """The user's reader raised an exception; that exception is the cause of this one."""


class NotStarted(EnforceNotMet):
    """Data were asked for before `start()`, or after `reset()` without another `start()`."""


class WorkerDied(EnforceNotMet):
    """A worker process ended without saying so: killed, or out of memory."""


class RemoteTraceback(Exception):
    """The traceback of an exception in a worker process, as text."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def failed(name: str, error: BaseException) -> ReaderFailed:
    """The error for the consumer of the reader `name` whose source raised `error`."""
    if isinstance(error, ReaderFailed):
        return error
    clear = ReaderFailed(
        f"Blocking queue is killed because the data reader raises an exception: reader {name!r} "
        f"raised {type(error).__name__}: {error}"
    )
    clear.__cause__ = error
    return clear
