"""A join that Ctrl-C interrupted doesn't make a running thread count as ended."""

from __future__ import annotations

import multiprocessing
import threading

import pytest

from refluid.core.joined_thread import JoinedThread
from tests.interrupting import Lingering, interrupted_in


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
