"""Threads that Ctrl-C interrupts as they start or are joined: they run, and count as running."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from refluid.core.whole_threads import JoinedThread, begin, ended
from tests.interrupting import Lingering, interrupted_in, interruptible


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
