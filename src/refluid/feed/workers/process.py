"""One worker process: how it starts, what it does about signals, how it ends."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from refluid.core.errors import EnforceNotMet
from refluid.feed.errors import RemoteTraceback, WorkerDied
from refluid.feed.workers.channel import Disconnected, MessageKind, WorkerEnd, connect

WorkerFunction = Callable[[WorkerEnd], None]

_PARENT_CHECK = 0.5
_GRACE = 1.0
# Between making a connection and the end of the fork no other worker may be forked: it would
# hold a copy of the connection, and the worker's death would go unnoticed.
_forking = threading.Lock()


def _new_lock() -> None:
    global _forking
    _forking = threading.Lock()


# In a worker the lock that its parent held while forking is never released.
os.register_at_fork(after_in_child=_new_lock)


class Worker:
    """A forked process that runs `work` and sends what it makes.

    title: the reader that it works for. number: its place among `count` workers. lend: see
    `ReaderEnd`.
    """

    def __init__(
        self, work: WorkerFunction, title: str, number: int, count: int, lend: int
    ) -> None:
        self.number = number
        self._title = title
        self._count = count
        if "fork" not in multiprocessing.get_all_start_methods():
            raise EnforceNotMet(
                f"reader {title!r}: worker processes need fork(), which this system doesn't have; "
                "use num_workers=0 or use_multiprocess=False"
            )
        with _forking, warnings.catch_warnings():
            # Python 3.12 warns of fork in a process with threads. A worker touches no lock of ours.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.end, theirs = connect(lend)
            self.process = multiprocessing.get_context("fork").Process(
                target=_main,
                args=(work, self.end.socket, theirs, os.getpid()),
                name=f"refluid {title} {number}",
            )
            self.process.start()
            theirs.close()

    @property
    def label(self) -> str:
        """How messages call this worker."""
        return f"worker {self.number} of {self._count} of reader {self._title!r}"

    def died(self) -> WorkerDied:
        """The error for a worker that ended without saying so."""
        self.process.join(_GRACE)
        code = self.process.exitcode
        how = "ended unexpectedly"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        elif code is not None:
            how = f"ended with status {code}"
        hint = " (out of memory?)" if code == -signal.SIGKILL else ""
        return WorkerDied(f"{self.label} (process {self.process.pid}) {how}{hint}")

    def allow(self, order: Any) -> None:
        """Sends the worker an order. A worker that is gone is noticed when it is listened to."""
        with contextlib.suppress(Disconnected):
            self.end.send(order)

    def hang_up(self) -> None:
        """Lets the worker know that nothing more is wanted."""
        with contextlib.suppress(OSError):
            self.end.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the process: it may finish what it is doing for a moment, then it is killed."""
        self.hang_up()
        for end in (None, self.process.terminate, self.process.kill):
            if end is not None:
                end()
            self.process.join(_GRACE)
            if not self.process.is_alive():
                break
        self.end.close()


def _main(work: WorkerFunction, parents: socket.socket, own: socket.socket, parent: int) -> None:
    parents.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    end = WorkerEnd(own)
    try:
        work(end)
    except Disconnected:
        pass
    except BaseException as error:
        _report(end, error)
    finally:
        own.close()


def _end_with(parent: int) -> NoReturn:
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK)
    os._exit(1)


def _report(end: WorkerEnd, error: BaseException) -> None:
    text = "".join(traceback.format_exception(error))
    carried: BaseException | None = error
    try:
        if type(pickle.loads(pickle.dumps(error))) is not type(error):
            carried = None
    except Exception:
        carried = None
    with contextlib.suppress(Disconnected):
        end.send(MessageKind.ERROR, 0, (carried, f"{type(error).__name__}: {error}", text))


def rebuild(report: tuple[BaseException | None, str, str]) -> BaseException:
    """The exception of a worker, with its traceback there as cause."""
    carried, summary, text = report
    error = RuntimeError(summary) if carried is None else carried
    error.__cause__ = RemoteTraceback(text)
    return error
