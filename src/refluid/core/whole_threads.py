"""Threads that Ctrl-C leaves whole: as they start, while they wait, and as they are joined."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

T = TypeVar("T")
G = TypeVar("G")
P = ParamSpec("P")


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Within the block the main thread isn't interrupted; a KeyboardInterrupt comes at its end.

    For `fork`, whose callbacks may not be interrupted, and for what must be whole.
    """
    former = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(former):
        yield
        return
    arrived: list[Any] = []
    signal.signal(signal.SIGINT, lambda *signalled: arrived.append(signalled))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        if arrived:
            former(*arrived[0])


def begin(thread: threading.Thread) -> None:
    """Starts a thread; a KeyboardInterrupt comes after that.

    One that arrives within `Thread.start` leaves a thread that never runs, and that Python keeps
    for ever, with all that it was to work on.
    """
    with interrupts_later():
        thread.start()


def submitted(
    threads: Executor, work: Callable[P, T], *given: P.args, **named: P.kwargs
) -> Future[T]:
    """`work(*given, **named)`, given to one of the threads; a KeyboardInterrupt comes after that.

    One that arrives within `submit` may come out as RuntimeError: see `Waiters`.
    """
    with interrupts_later():
        return threads.submit(work, *given, **named)


def ended(future: Future[T]) -> Future[T]:
    """The future, once it is done.

    `Future.result` itself waits in a `threading.Condition`, with what `Waiters` says of it.
    """
    over = threading.Lock()
    over.acquire()
    with interrupts_later():  # halfway it would keep the lock that the thread at work needs
        future.add_done_callback(lambda _future: over.release())
    over.acquire()
    return future


def outcome(future: Future[T]) -> T:
    """What the future gives, once it is done; raises what its work raised.

    Also `Future.result` and `Future.done` enter a condition: halfway they keep the lock that the
    thread at work needs to end.
    """
    ended(future)
    with interrupts_later():
        return future.result()


def is_over(future: Future[Any]) -> bool:
    """`future.done()`; a KeyboardInterrupt comes after that."""
    with interrupts_later():
        return future.done()


def all_ended(begin: Callable[[], list[Future[T]]]) -> list[Future[T]]:
    """The futures of works that need each other, once all are done: all begin, or none.

    On a KeyboardInterrupt it is raised after they have ended, as nothing may change what they work
    on until then; on a second one at once.
    """
    with interrupts_later():
        futures = begin()
    try:
        for future in futures:
            ended(future)
    except KeyboardInterrupt:
        for future in futures:
            ended(future)
        raise
    return futures


def _nothing() -> None:
    pass


def all_done(
    work: Callable[[G], T],
    given: Sequence[G],
    threads: int,
    stop: Callable[[], None] = _nothing,
) -> list[T]:
    """What `work` gives for each of `given`, by so many threads of their own.

    As soon as one fails, or this thread is interrupted, no other begins and `stop` is called, which
    may end those that run; once all have ended it is raised, the first where several fail. A second
    interrupt comes at once.
    """
    from concurrent.futures import Future, ThreadPoolExecutor

    failed: list[BaseException] = []

    def fails(error: BaseException) -> None:
        failed.append(error)
        stop()

    def one(item: G) -> T | None:
        if failed:
            return None
        try:
            return work(item)
        except BaseException as error:
            fails(error)
            return None

    pool, futures = ThreadPoolExecutor(threads), list[Future[T | None]]()
    try:
        with interrupts_later():
            futures += [pool.submit(one, item) for item in given]
        for future in futures:
            ended(future)
    except BaseException as error:
        fails(error)
        for future in futures:
            ended(future)
    finally:
        with interrupts_later():
            pool.shutdown(wait=all(future.done() for future in futures))
    if failed:
        raise failed[0]
    return [cast(T, outcome(future)) for future in futures]


class JoinedThread:
    """A daemon thread that runs `target(*arguments)`.

    Python 3.11 takes a thread for ended once a KeyboardInterrupt arrived while it was joined: then
    `Thread.join` returns at once. This one's `join` waits again.
    """

    def __init__(self, target: Callable[..., None], *arguments: Any, name: str) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(target, *arguments), name=name, daemon=True
        )
        self._process = os.getpid()
        self._running = threading.Lock()
        self._running.acquire()

    def start(self) -> None:
        """Starts the thread, once."""
        begin(self._thread)

    def join(self) -> None:
        """Waits for the thread's end; not for one never started, nor for one of a fork's parent."""
        if self._thread.ident is None or os.getpid() != self._process:
            return
        with self._running:  # entering a lock can't be interrupted halfway
            pass
        self._thread.join()

    def _run(self, target: Callable[..., None], *arguments: Any) -> None:
        try:
            target(*arguments)
        finally:
            self._running.release()


class Waiters:
    """Threads that wait until they are woken. They wait without the lock that guards the state.

    A thread in `threading.Condition.wait` that is interrupted between being notified and having
    its lock again leaves the `with` block of a lock that it doesn't hold: RuntimeError takes the
    place of KeyboardInterrupt. Here the loop is the caller's, and nothing can be left halfway:

        while True:
            with lock:
                if there_is_something:
                    return take()
                woken = waiters.join()
            woken.acquire()
    """

    def __init__(self) -> None:
        self._waiting: list[threading.Lock] = []

    def join(self) -> threading.Lock:
        """What the caller acquires to wait, after it has released the lock that it holds now."""
        woken = threading.Lock()
        woken.acquire()
        self._waiting.append(woken)
        return woken

    def wake(self) -> None:
        """Wakes all; called with the lock held. One that was interrupted is forgotten."""
        while self._waiting:
            # In this order, so that an interrupt between the two leaves nobody asleep.
            if self._waiting[-1].locked():
                self._waiting[-1].release()
            self._waiting.pop()
