"""Reader and its double buffer: passes, errors, threads."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from refluid.core.errors import EOFException
from refluid.feed import NotStarted, QueueReader, ReaderFailed
from refluid.feed.staging import Staged
from tests.feed.leftovers import PATIENCE, assert_nothing_left

Make = Callable[[QueueReader], Any]

KINDS: dict[str, Make] = {
    "plain": lambda reader: reader,
    "staged": lambda reader: Staged(reader, lambda item: [item], lambda item: item[0]),
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    yield KINDS[request.param]
    gc.collect()
    assert_nothing_left()


def _all(source: Any) -> list[Any]:
    found = []
    try:
        while True:
            found.append(source.next())
    except EOFException:
        return found


def test_passes(make: Make) -> None:
    reader = QueueReader("passes", 3)
    source = make(reader)
    with pytest.raises(NotStarted):
        source.next()
    for _ in range(3):
        reader.start(lambda: iter(range(10)))
        assert _all(source) == list(range(10))
        assert reader.delivered == 10
        assert reader.ended
        with pytest.raises(EOFException):
            source.next()
    reader.reset()
    reader.reset()
    with pytest.raises(NotStarted):
        source.next()


def test_reset_in_the_middle_begins_anew(make: Make) -> None:
    reader = QueueReader("middle", 2)
    source = make(reader)
    for _ in range(5):
        reader.start(lambda: iter(range(50)))
        assert [source.next() for _ in range(4)] == [0, 1, 2, 3]
    reader.start(lambda: iter(range(3)))
    reader.start(lambda: iter(range(3)))
    assert _all(source) == [0, 1, 2]


def test_errors_come_after_the_items(make: Make) -> None:
    def failing() -> Iterator[int]:
        yield from range(3)
        raise OSError("disk gone")

    reader = QueueReader("failing", 5)
    source = make(reader)
    reader.start(failing)
    assert [source.next() for _ in range(3)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(ReaderFailed, match="'failing' raised OSError: disk gone") as caught:
            source.next()
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.__cause__.__traceback__ is not None
    reader.start(lambda: iter([7]))
    assert _all(source) == [7]


def test_a_generator_function_that_fails_at_once(make: Make) -> None:
    reader = QueueReader("at once", 1)
    reader.start(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    with pytest.raises(ReaderFailed, match="ZeroDivisionError"):
        make(reader).next()
    reader.reset()


def test_the_generator_is_closed_in_its_own_thread(make: Make) -> None:
    closed: list[str] = []

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append(threading.current_thread().name)

    reader = QueueReader("endless", 2)
    source = make(reader)
    reader.start(endless)
    source.next()
    reader.reset()
    assert closed == ["refluid reader endless"]


def test_reset_ends_all_threads(make: Make) -> None:
    reader = QueueReader("reset", 2)
    source = make(reader)
    reader.start(lambda: iter(range(1000)))
    assert source.next() == 0
    time.sleep(0.05)
    reader.reset()
    assert_nothing_left()


def test_a_forgotten_reader_ends_its_threads(make: Make) -> None:
    reader = QueueReader("forgotten", 2)
    source = make(reader)
    reader.start(lambda: iter(range(1000)))
    source.next()
    del reader, source


def test_waiting_consumers_are_let_go(make: Make) -> None:
    reader = QueueReader("waiting", 2)
    source = make(reader)
    errors: list[Exception] = []
    go_on = threading.Event()

    def blocked() -> Iterator[int]:
        go_on.wait(PATIENCE)
        yield 1

    def consume() -> None:
        try:
            source.next()
        except NotStarted as error:
            errors.append(error)

    reader.start(blocked)
    thread = threading.Thread(target=consume)
    thread.start()
    time.sleep(0.1)
    reader.abandon(reader.generation)
    thread.join(PATIENCE)
    assert len(errors) == 1
    go_on.set()


def test_several_consumers_share_a_pass(make: Make) -> None:
    reader = QueueReader("shared", 4)
    source = make(reader)
    reader.start(lambda: iter(range(200)))
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.extend(_all(source))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(found) == list(range(200))
    reader.reset()
