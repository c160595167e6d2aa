"""Waiting that Ctrl-C interrupts: KeyboardInterrupt comes, and nobody else waits in vain."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import pytest

from refluid.core.whole_threads import Waiters
from refluid.feed.mapping import _Work
from refluid.feed.queue import BlockingQueue
from tests.feed.leftovers import PATIENCE, until


class _InterruptedLock:
    """A lock at whose n-th acquisition by the main thread an interrupt comes before it is held."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.at = self.acquisitions = 0

    def acquire(self, blocking: bool = True) -> bool:
        if blocking and threading.current_thread() is threading.main_thread():
            self.acquisitions += 1
            if self.acquisitions == self.at:
                raise KeyboardInterrupt
        return self._lock.acquire(blocking)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _queue() -> tuple[Callable[[], Any], Callable[[], Any]]:
    queue = BlockingQueue(2)
    ticket = queue.reopen()
    return lambda: queue.pop(ticket), lambda: queue.push(7, ticket)


def _mapping() -> tuple[Callable[[], Any], Callable[[], Any]]:
    work = _Work(lambda item: item, 2)
    return lambda: work.take(True), lambda: work.add(7) and work.map_next()


@pytest.mark.parametrize("make", [_queue, _mapping])
def test_an_interrupt_between_waking_and_the_lock(
    make: Callable[[], tuple[Callable[[], Any], Callable[[], Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock = _InterruptedLock()
    with monkeypatch.context() as patched:
        patched.setattr(threading, "Lock", lambda: lock)
        take, give = make()
    lock.acquisitions, lock.at = 0, 2

    def give_later() -> None:
        until(lambda: lock.acquisitions == 1)
        give()

    giver = threading.Thread(target=give_later)
    giver.start()
    with pytest.raises(KeyboardInterrupt):
        take()
    giver.join(PATIENCE)
    assert take() in (7, (7, None))  # what was given is still there


def test_an_interrupted_waiter_takes_nothing_from_the_others() -> None:
    lock, waiters, seen = threading.Lock(), Waiters(), []
    with lock:
        waiters.join()  # interrupted before it waits
        second = waiters.join()

    def wait() -> None:
        second.acquire()
        seen.append(2)

    thread = threading.Thread(target=wait)
    thread.start()
    with lock:
        waiters.wake()
    thread.join(PATIENCE)
    assert seen == [2]
    with lock:
        waiters.wake()  # nobody is left


def test_waking_that_is_interrupted_can_be_done_again() -> None:
    waiters = Waiters()
    first, second = waiters.join(), waiters.join()
    second.release()  # what an interrupted `wake` had done
    waiters.wake()
    assert not first.locked()
    assert not second.locked()
