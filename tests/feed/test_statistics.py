"""What readers measure, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from refluid.core.errors import EOFException
from refluid.feed import QueueReader, Snapshot, measured, statistics
from refluid.feed.statistics import (
    BALANCED,
    COMPUTE_BOUND,
    READER_BOUND,
    UNKNOWN,
    ReaderStatistics,
)


def _paced(count: int, seconds: float) -> Callable[[], Iterator[int]]:
    def items() -> Iterator[int]:
        for number in range(count):
            time.sleep(seconds)
            yield number

    return items


def _consume(reader: QueueReader, seconds: float) -> Snapshot:
    try:
        while True:
            reader.next()
            time.sleep(seconds)
    except EOFException:
        return reader.statistics.snapshot()


@pytest.mark.parametrize(("making", "using"), [(0.02, 0.0), (0.0, 0.01), (0.002, 0.02)])
def test_counts(making: float, using: float) -> None:
    reader = QueueReader(f"paced {making} {using}", 4)
    reader.start(_paced(12, making))
    found = _consume(reader, using)
    reader.reset()
    assert (found.produced, found.consumed, found.intervals) == (12, 12, 11)
    assert 0 <= found.depth <= 4
    assert found.making >= 12 * making
    assert found.active >= found.waited + 11 * using
    assert measured()[reader.statistics] == found
    assert found.verdict in str(found)


@pytest.mark.parametrize(
    ("waited", "using", "verdict"),
    [(0.02, 0.0, READER_BOUND), (0.0, 0.01, COMPUTE_BOUND), (0.002, 0.018, BALANCED)],
)
def test_verdict(
    monkeypatch: pytest.MonkeyPatch, waited: float, using: float, verdict: str
) -> None:
    clock = 0.0
    monkeypatch.setattr(statistics.time, "perf_counter", lambda: clock)
    one = ReaderStatistics("clocked", 4)
    one.begin()
    for depth in (0, 1, 2, 1):
        clock += waited + using
        one.note_taken(waited, depth)
    found = one.snapshot()
    assert found.verdict == verdict
    assert found.waiting_share == pytest.approx(waited / (waited + using))
    assert found.consumed_per_second == pytest.approx(1 / (waited + using))
    assert (found.warmup, found.depth) == (waited, 4 / 3)


def _snapshot(waited: float, intervals: int = 10) -> Snapshot:
    return Snapshot("r", 4, 11, 11, 1.0, 0.0, waited, 1.0, 0.0, 2 * intervals, intervals)


def test_shares() -> None:
    assert _snapshot(0.1).verdict == BALANCED
    assert _snapshot(0.9).verdict == READER_BOUND
    assert _snapshot(0.01).verdict == COMPUTE_BOUND
    assert _snapshot(0.9, intervals=2).verdict == UNKNOWN
    assert _snapshot(0.25).waiting_share == 0.25
    later = _snapshot(0.5, 30).since(_snapshot(0.25, 10))
    assert (later.waited, later.intervals, later.depth) == (0.25, 20, 2.0)


def test_the_first_wait_is_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    note_taken = ReaderStatistics.note_taken

    def noted(one: ReaderStatistics, waited: float, depth: int) -> None:
        waits.append(waited)
        note_taken(one, waited, depth)

    monkeypatch.setattr(ReaderStatistics, "note_taken", noted)
    reader = QueueReader("two passes", 2)
    for _ in range(2):
        reader.start(_paced(5, 0.001))
        found = _consume(reader, 0)
    assert found.intervals == 8
    assert found.warmup == waits[0] + waits[5]
    assert found.waited == pytest.approx(sum(waits[1:5] + waits[6:]))


def test_time_without_data_is_no_wait() -> None:
    reader = QueueReader("idle", 2)
    reader.start(_paced(3, 0))
    reader.next()
    time.sleep(0.1)
    reader.next()
    found = reader.statistics.snapshot()
    assert found.active - found.waited >= 0.1
    reader.reset()
