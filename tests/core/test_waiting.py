"""Threads that wait for a core, counted."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from refluid.core import waiting
from refluid.core.waiting import Waiting, times


def test_the_mean_of_waiting_threads_since_the_call_before() -> None:
    read = iter(
        (
            {1: (9.0, 5.0), 2: (2.5, 1.0)},
            {1: (10.0, 6.0), 3: (1.0, 2.0)},
            {1: (10.0, 6.0), 3: (1.0, 2.0)},
        )
    )
    mean = Waiting(lambda: next(read), {1: (7.0, 5.0), 2: (2.0, 0.5)})
    assert mean() == 0.25  # thread 1 was busy for two seconds, thread 2 waited half of one
    assert mean() == 1.0  # thread 3 is new: it waited two seconds of three, thread 1 one
    assert mean() == 0.0  # a pause


def test_nothing_known_is_no_waiting() -> None:
    assert Waiting(dict, {})() == 0


def test_every_thread_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for thread, text in ((7, "2000000000 3000000000 5"), (8, "0 500000000 1"), (9, "")):
        (tmp_path / str(thread)).mkdir()
        (tmp_path / str(thread) / "schedstat").write_text(text)
    (tmp_path / "10").mkdir()
    monkeypatch.setattr(waiting, "_TASKS", tmp_path)
    assert times() == {7: (2.0, 3.0), 8: (0.0, 0.5)}


@pytest.mark.parametrize("text", ["0 0 0", "no numbers"])
def test_a_kernel_that_does_not_count(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "schedstat").write_text(text)
    for folder in (tmp_path, tmp_path / "none"):
        monkeypatch.setattr(waiting, "_TASKS", folder)
        found = times()
        assert list(found) == [0] and found[0][0] > 0 and found[0][1] >= 0
    monkeypatch.setattr(waiting, "resource", None)
    assert times() == {}


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts on Linux")
def test_this_machine_counts() -> None:
    found = times()
    assert any(running > 0 for running, _ in found.values())
    assert threading.get_native_id() in found or list(found) == [0]
