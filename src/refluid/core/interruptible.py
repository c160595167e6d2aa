"""`interruptibly`: waiting that Ctrl-C ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

import torch

from refluid.core.threads import begin_thread
from refluid.core.whole_threads import begin, outcome

T = TypeVar("T")


def interruptibly(work: Callable[[], T], name: str, interrupted: Callable[[], None]) -> T:
    """What the call gives, of what waits where Ctrl-C can't reach it: it goes to another thread.

    Ctrl-C reaches the main thread, which calls `interrupted`; the work is left behind, and goes on
    until what it waits for comes or is given up. In other threads it is simply called.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    worker = _idle.pop() if _idle else _Worker(name)
    try:
        return worker.does(work)
    except KeyboardInterrupt:
        worker.busy = True
        interrupted()
        raise
    finally:
        if not worker.busy:
            _idle.append(worker)


class _Worker:
    """A thread that does one thing after the other. busy: whether it was left behind."""

    def __init__(self, name: str) -> None:
        self._works: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self.busy = False
        threads = torch.get_num_threads()
        begin(threading.Thread(target=self._run, args=(threads,), name=name, daemon=True))

    def does(self, work: Callable[[], T]) -> T:
        done: Future[T] = Future()
        self._works.put((work, done))
        return outcome(done)

    def _run(self, threads: int) -> None:
        begin_thread(threads)
        while True:
            work, done = self._works.get()
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)
            del work, done  # they may hold connections


# Those of the main thread that have nothing to do; a fork has none.
_idle: list[_Worker] = []
os.register_at_fork(after_in_child=_idle.clear)
