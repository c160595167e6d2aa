"""Threads that Ctrl-C interrupts as they start or are joined: they run, and count as running."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from threading import get_ident
from typing import Any

import pytest

from refluid.core.whole_threads import JoinedThread, all_done, all_ended, begin, ended, submitted
from tests.feed.leftovers import until
from tests.interrupting import (
    Lingering,
    interrupted_at_each_call,
    interrupted_in,
    interruptible,
)


def test_a_join_after_an_interrupted_one_waits() -> None:
    work = Lingering()
    thread = JoinedThread(work, name="refluid test")
    thread.start()
    for _ in range(3):
        with interrupted_in("join"):
            thread.join()
    assert not work.over
    work.end()
    thread.join()
    assert work.over
    thread.join()
    assert "refluid test" not in [one.name for one in threading.enumerate()]


def test_joining_what_does_not_run_here_returns() -> None:
    JoinedThread(Lingering(), name="refluid test").join()
    work = Lingering()
    thread = JoinedThread(work, name="refluid test")
    thread.start()
    child = multiprocessing.get_context("fork").Process(target=thread.join)
    child.start()
    child.join(60)
    code = child.exitcode
    child.kill()
    work.end()
    thread.join()
    assert code == 0 and work.over


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_raises_has_ended() -> None:
    thread = JoinedThread(int, "one", name="refluid test")
    thread.start()
    thread.join()


class _Interrupted(threading.Thread):
    """A thread within whose start Ctrl-C comes."""

    def start(self) -> None:
        signal.raise_signal(signal.SIGINT)
        super().start()


def test_a_thread_that_is_interrupted_as_it_starts_runs() -> None:
    done = threading.Event()
    thread = _Interrupted(target=done.set)
    with interruptible(), pytest.raises(KeyboardInterrupt):
        begin(thread)
    assert done.wait(60)
    thread.join()
    assert thread not in threading.enumerate()


class _Threads(ThreadPoolExecutor):
    """Threads within whose `submit` Ctrl-C comes."""

    def submit(self, *given: Any, **named: Any) -> Future[Any]:
        signal.raise_signal(signal.SIGINT)
        return super().submit(*given, **named)


class _Future(Future[None]):
    """A future within whose `add_done_callback` Ctrl-C comes."""

    def add_done_callback(self, fn: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        super().add_done_callback(fn)


def test_work_that_is_interrupted_as_it_is_submitted_is_done() -> None:
    done = threading.Event()
    with interruptible(), _Threads(1) as threads, pytest.raises(KeyboardInterrupt):
        submitted(threads, done.set)
    assert done.is_set()


def test_works_that_need_each_other_are_all_submitted() -> None:
    met, came = threading.Barrier(3), list[int]()
    with interruptible(), _Threads(3) as threads, pytest.raises(KeyboardInterrupt):
        all_ended(lambda: [threads.submit(lambda: came.append(met.wait(60))) for _ in range(3)])
    assert not met.broken
    assert sorted(came) == [0, 1, 2]


def test_an_interrupt_as_a_future_begins_to_be_waited_for_leaves_it_whole() -> None:
    future = _Future()
    with interruptible(), pytest.raises(KeyboardInterrupt):
        ended(future)
    assert len(future._done_callbacks) == 1  # type: ignore[attr-defined]
    future.set_result(None)


def test_an_interrupt_comes_after_all_works_have_ended_and_a_second_one_at_once() -> None:
    with ThreadPoolExecutor(2) as threads:
        works = [Lingering(), Lingering()]
        ending = threading.Timer(1, lambda: [work.end() for work in works])
        with interrupted_in("all_ended"):
            ending.start()
            all_ended(lambda: [threads.submit(work) for work in works])
        assert all(work.over for work in works)
        work = Lingering()
        with interrupted_in("all_ended"):
            again = threading.Timer(1, signal.pthread_kill, (get_ident(), signal.SIGINT))
            again.start()
            all_ended(lambda: [threads.submit(work)])
        assert not work.over
        work.end()


def test_a_future_that_is_waited_for_is_left_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by an interrupt in the moment in which a `Condition` would wait for its lock again."""

    acquire = threading.Condition._acquire_restore  # type: ignore[attr-defined]

    def interrupt(*state: object) -> None:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        acquire(*state)

    with ThreadPoolExecutor(1) as threads:
        work = Lingering()
        future = threads.submit(work)
        with interrupted_in("ended"):
            ended(future)
        monkeypatch.setattr(threading.Condition, "_acquire_restore", interrupt)
        work.end()
        assert ended(future).result() is None and work.over


def test_an_interrupt_ends_what_runs_and_begins_no_more() -> None:
    works = [Lingering() for _ in range(4)]
    with interrupted_in("all_done"):
        all_done(Lingering.__call__, works, 2, lambda: [work.end() for work in works[:2]] and None)
    assert [work.over for work in works] == [True, True, False, False]


def test_works_are_done_whole_after_an_interrupt_at_any_call() -> None:
    before, tried = threading.active_count(), 0
    # In `WeakSet`, which forgets threads, Python swallows interrupts.
    parts = "/concurrent/", "/threading.py", "/core/"
    for _ in interrupted_at_each_call(lambda: all_done(abs, [-1, -2, -3], 2), 3, parts):
        until(lambda: threading.active_count() <= before)
        tried += 1
    assert tried > 30
    assert all_done(abs, [-1, -2, -3], 2) == [1, 2, 3]


def test_the_first_that_fails_stops_the_others_and_is_raised() -> None:
    other = Lingering()

    def work(number: int) -> None:
        if number:
            raise ValueError("first")
        other()
        raise ValueError("its end is what made this one fail")

    with pytest.raises(ValueError, match="first"):
        all_done(work, [0, 1], 2, other.end)
    assert other.over
