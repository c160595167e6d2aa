"""`refluid run --auto`: readers that are uneven get more room, and give the same batches."""

from __future__ import annotations

import pytest

from refluid.feed.reader import QueueReader
from refluid.feed.statistics import Snapshot
from refluid.tune import ahead
from refluid.tune.ahead import ReaderDepth


def shares(seconds: float, blocked: float, waited: float, name: str) -> Snapshot:
    """A reader after so many seconds, of which it waited, and was waited for, these parts."""
    count, made = int(10 * seconds), seconds * (1 - blocked)
    return Snapshot(
        name, 4, count, count, made, seconds * blocked, seconds * waited, seconds, 0.0, 0, count
    )


@pytest.mark.parametrize(
    ("blocked", "waited", "room"),
    [(0.5, 0.2, 8), (0.0, 0.6, 4), (0.9, 0.0, 4), (0.01, 0.5, 4)],
    ids=["uneven", "slow", "fast", "slow, but once"],
)
def test_uneven_readers_get_more_room(
    blocked: float, waited: float, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, depth = QueueReader("some", 4), ReaderDepth()
    monkeypatch.setattr(ahead, "readers", lambda: [reader])
    for second in range(3):
        found = shares(second, blocked, waited, "some")
        monkeypatch.setattr(reader.statistics, "snapshot", lambda: found)  # noqa: B023
        depth.look(float(second) * 2)
    assert reader.queue.capacity() == room
    assert [line.split(":")[0] for line in depth.told()] == (["some"] if room > 4 else [])


def test_a_reader_with_more_room_gives_the_same() -> None:
    reader = QueueReader("some", 1)
    reader.start(lambda: iter(range(50)))
    taken = [reader.next() for _ in range(10)]
    reader.deepen(8)
    assert reader.queue.capacity() == reader.statistics.snapshot().capacity == 8
    assert taken + [reader.next() for _ in range(40)] == list(range(50))
